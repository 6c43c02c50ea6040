"""The setting, which is a part of the key of JAX's compiled programs.

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
      primitive: JAX's primitive.
      avals: the types of its operands.
      parameters: its parameters.
      reasons: why the rules that are on do not cover the call.
      others: the rules that are off, with their names, and what they would need
        to know, or why they would not cover the call either.
    """

    primitive: Primitive
    avals: Sequence[ShapedArray]
    parameters: Mapping[str, object]
    reasons: Sequence[str]
    others: Sequence[tuple[str, Rule, str | Found]]


class Record(Hashable, Protocol):
    """Collects what primitives are lowered to."""

    def others(self) -> Iterable[tuple[str, Rule]]:
        """All rules that there are."""

    def add(self, call: Call, taken: tuple[str, Rule] | None) -> None:
        """Called for each call that is lowered, by the rule `taken` if any."""


@dataclasses.dataclass(frozen=True, eq=False)
class Setting:
    """The setting that lowerings read. JAX compares it often, by identity.

    Attributes:
      names: the names that are on.
      rules: their rules, each with its name. The first one that covers a call
        is used.
      exported: the names whose handlers exported programs call, too.
      trial: what the rule takes as given that is being tested.
      record: collects what is lowered, if anyone asks for it.
    """

    names: frozenset[str] = frozenset()
    rules: tuple[tuple[str, Rule], ...] = ()
    exported: frozenset[str] = frozenset()
    trial: Found | None = None
    record: Record | None = None


OFF = Setting()
_context = jax.make_user_context(default_value=OFF)


def current() -> Setting:
    """Returns this thread's setting, or else that of the process."""
    return cast(Setting, _context.value)


def set_process(setting: Setting) -> None:
    """Sets the setting of threads that have none of their own."""
    _jax.set_global_value(_context, setting)


def using(setting: Setting) -> AbstractContextManager[None]:
    """Sets this thread's setting until the end of the block."""
    block: AbstractContextManager[None] = _context(setting)
    return block
