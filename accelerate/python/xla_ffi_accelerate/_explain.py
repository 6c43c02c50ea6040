"""Reports what a program's operations were lowered to, and why.

`explain(f)(*args)` returns a table; so does running a script by
`python -m xla_ffi_accelerate explain script.py`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import ParamSpec

import jax
from jax.core import ShapedArray

from xla_ffi_accelerate import _scopes, registry, switch
from xla_ffi_accelerate._rule import Rule
from xla_ffi_accelerate._setting import Call

P = ParamSpec("P")

_JAX = "JAX's own"
_HEADING = ("primitive", "operands", "lowered to", "why")


@dataclasses.dataclass(frozen=True)
class Row:
    """Calls of a primitive, with operands of one kind.

    Attributes:
      primitive: the name of the primitive.
      operands: the types of the operands.
      lowered_to: a handler, "plain HLO" or "JAX's own".
      reason: why JAX's own code stayed.
    """

    primitive: str
    operands: str
    lowered_to: str
    reason: str


class Explanation:
    """A table, as text by `str`.

    Attributes:
      rows: the calls of the primitives that have rules.
    """

    def __init__(self, rows: Iterable[Row]) -> None:
        self.rows = sorted(
            rows, key=lambda row: (row.lowered_to == _JAX, row.primitive)
        )

    def __str__(self) -> str:
        cells = [_HEADING, *map(dataclasses.astuple, self.rows)]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = (
            "  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True))
            for row in cells
        )
        return "\n".join(line.rstrip() for line in lines)

    __repr__ = __str__


class Recorder:
    """Collects what is lowered while a setting has it as its record."""

    def __init__(self) -> None:
        self.rows: dict[Row, None] = {}  # in order, each once

    def others(self) -> Iterable[tuple[str, Rule]]:
        """All rules that there are."""
        return registry.rules(frozenset(registry.RULES))

    def add(self, call: Call, taken: tuple[str, Rule] | None) -> None:
        """Called for each call that is lowered."""
        lowered_to, reason = _JAX, _why(call)
        if taken is not None:
            lowered_to, reason = taken[1].target or "plain HLO", ""
        types = _types(call.avals)
        self.rows[Row(call.primitive.name, types, lowered_to, reason)] = None


def _why(call: Call) -> str:
    """Why JAX's own code stays, or what would replace it."""
    for name, rule, found in call.others:
        if not isinstance(found, str):
            kind = "exact" if rule.exact else "close"
            return f'off; enable("{name}") replaces it, with {kind} results'
    reasons = call.reasons or [str(why) for *_, why in call.others]
    return "; ".join(dict.fromkeys(reasons))


def _types(avals: Sequence[ShapedArray]) -> str:
    return " ".join(
        aval.str_short(short_dtypes=True)
        if hasattr(aval, "shape")
        else str(aval)
        for aval in avals
    )


def explain(function: Callable[P, object]) -> Callable[P, Explanation]:
    """Reports what the operations of a function are lowered to, and why.

    It traces and lowers the function under the current setting, and does not
    run it. A function that needs values, for example in an `if`, is run.

    Args:
      function: any function of JAX, jitted or not.

    Returns:
      A function with the same arguments that returns an `Explanation`.

    Raises:
      TypeError: what is given is not a function, such as its result.
    """
    if not callable(function):
        raise TypeError(
            "explain: argument function: expected a function, got "
            f"{_named(function)}; write explain(f)(x), not explain(f(x))"
        )

    def explained(*args: P.args, **kwargs: P.kwargs) -> Explanation:
        recorder = Recorder()
        switch.install(registry.RULES)
        with _scopes.Block(_scopes.Change(record=recorder)):
            try:
                getattr(function, "lower", jax.jit(function).lower)(
                    *args, **kwargs
                )
            except (TypeError, IndexError):  # it needs values, or is wrong
                function(*args, **kwargs)
        explanation = Explanation(recorder.rows)
        recorder.rows.clear()  # JAX keeps it, in the key of what was compiled
        return explanation

    return explained


def _named(value: object) -> str:
    if isinstance(value, jax.Array):
        return f"an array, {value.dtype.name}{list(value.shape)}"
    return repr(value)
