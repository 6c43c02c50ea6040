"""What is on: a part of what JAX compiles a program for.

A user context of JAX is part of the key of all its caches. A program is
compiled once for each setting that it runs under, and found again; nothing is
cleared, and each thread may have a setting of its own.
"""

from __future__ import annotations

import dataclasses
from contextlib import AbstractContextManager
from typing import cast

import jax

from xla_ffi_accelerate import _jax
from xla_ffi_accelerate._rule import Rule


@dataclasses.dataclass(frozen=True, eq=False)
class Setting:
    """What lowerings ask. JAX compares it at every call, so by identity.

    Attributes:
      names: those that are on.
      rules: theirs, each with its name; the first one that covers is taken.
        A rule that tests itself has no name.
    """

    names: frozenset[str] = frozenset()
    rules: tuple[tuple[str, Rule], ...] = ()


OFF = Setting()
_context = jax.make_user_context(default_value=OFF)


def current() -> Setting:
    """This thread's, or else that of the process."""
    return cast(Setting, _context.value)


def set_process(setting: Setting) -> None:
    """Gives threads that have none of their own this one."""
    _jax.set_global_value(_context, setting)


def using(setting: Setting) -> AbstractContextManager[None]:
    """Gives this thread a setting of its own, until the block's end."""
    block: AbstractContextManager[None] = _context(setting)
    return block
