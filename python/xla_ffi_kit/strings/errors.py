"""What building an operation's library raises."""

from __future__ import annotations


class BuildError(RuntimeError):
    """A library cannot be built; the text says which, and why."""


class NoCompilerError(BuildError):
    """There is no C++ compiler."""
