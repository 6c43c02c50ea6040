"""What is on: a part of what JAX compiles a program for.

A user context of JAX is part of the key of all its caches. A program is
compiled once for each setting that it runs under, and found again; nothing is
cleared, and each thread may have a setting of its own.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol, cast

import jax
from jax.core import ShapedArray

from xla_ffi_accelerate import _jax
from xla_ffi_accelerate._jax import Primitive
from xla_ffi_accelerate._rule import Found, Rule


@dataclasses.dataclass(frozen=True)
class Call:
    """A call of a primitive that has rules, as it is lowered.

    Attributes:
      primitive: of JAX.
      avals: its operands.
      parameters: its parameters.
      reasons: why those of the rules that are on do not cover it that were
        asked.
      others: the rules that are off, with names, and what they would need to
        know, or why they would not cover it either.
    """

    primitive: Primitive
    avals: Sequence[ShapedArray]
    parameters: Mapping[str, object]
    reasons: Sequence[str]
    others: Sequence[tuple[str, Rule, str | Found]]


class Record(Hashable, Protocol):
    """Who wants to know what primitives are lowered to."""

    def others(self) -> Iterable[tuple[str, Rule]]:
        """All rules that there are."""

    def add(self, call: Call, taken: tuple[str, Rule] | None) -> None:
        """Called for each call that is lowered, by the rule `taken` if any."""


@dataclasses.dataclass(frozen=True, eq=False)
class Setting:
    """What lowerings ask. JAX compares it at every call, so by identity.

    Attributes:
      names: those that are on.
      rules: theirs, each with its name; the first one that covers is taken.
      trial: what the one rule that tests itself takes for granted.
      record: who wants to know.
    """

    names: frozenset[str] = frozenset()
    rules: tuple[tuple[str, Rule], ...] = ()
    trial: Found | None = None
    record: Record | None = None


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
