"""The errors of building an operation's library."""

from __future__ import annotations


class BuildError(RuntimeError):
    """A library cannot be built; the text says which, and why."""


class NoCompilerError(BuildError):
    """There is no C++ compiler."""
