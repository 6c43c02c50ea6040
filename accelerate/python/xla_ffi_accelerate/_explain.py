"""Reports what a program's operations were lowered to, and why.

`explain(f)(*args)` returns a table; so does running a script by
`python -m xla_ffi_accelerate explain script.py`.
"""

from __future__ import annotations

import collections
import dataclasses
import html
import textwrap
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import ParamSpec

import jax
import numpy as np
from jax.core import ShapedArray

from xla_ffi_accelerate import (
    _explain_loops,
    _scopes,
    _setting,
    registry,
    switch,
)
from xla_ffi_accelerate._explain_loops import Loop
from xla_ffi_accelerate._rule import Rule
from xla_ffi_accelerate._scopes import Change
from xla_ffi_accelerate._setting import OFF, Call, Setting

P = ParamSpec("P")

_SECONDS = 0.1  # that each measurement takes
_JAX = "JAX's own"
_COLUMNS = 100
# What JAX makes something else of, or nothing, before it lowers.
_WRAPPERS = frozenset({"call_hi_primitive", "get", "swap", "addupdate"})


@dataclasses.dataclass
class Row:
    """Calls of a primitive, with operands of one kind.

    Attributes:
      primitive: the name of the primitive.
      operands: the types of the operands.
      count: the number of calls in the traced program. A call in a loop counts
        once; a call whose result is not used counts too.
      lowered_to: a handler, "plain HLO" or "JAX's own".
      reason: why JAX's own code stayed.
      own_ms: the milliseconds of JAX's own code, if they were measured.
      rule_ms: the milliseconds of the rule that is on, or that could be.
    """

    primitive: str
    operands: str
    count: int
    lowered_to: str
    reason: str = ""
    own_ms: float | None = None
    rule_ms: float | None = None


class Explanation:
    """A table, as text by `str` and as a table in a notebook.

    Attributes:
      rows: the calls of the primitives that have rules.
      others: primitive without a rule -> the number of its calls.
      loops: the loops of the compiled program.
    """

    def __init__(self, rows: Sequence[Row], others: Mapping[str, int]) -> None:
        self.rows = list(rows)
        self.others = dict(others)
        self.loops: list[Loop] = []

    def _cells(self) -> list[list[str]]:
        has_times = any(row.own_ms is not None for row in self.rows)
        cells = [["primitive", "operands", "times", "lowered to", "why"]]
        if has_times:
            cells[0][4:4] = ["JAX ms", "ms", "x"]
        for row in self.rows:
            line = [row.primitive, row.operands, str(row.count)]
            line += [row.lowered_to, row.reason]
            if has_times:
                line[4:4] = _times(row)
            cells.append(line)
        return cells

    def _rest(self) -> str:
        if not self.others:
            return ""
        most = sorted(self.others.items(), key=lambda item: -item[1])
        names = ", ".join(f"{name} {count}" for name, count in most)
        return f"No rule replaces: {names}."

    def __str__(self) -> str:
        cells = self._cells()
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = [
            "  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True))
            for row in cells
        ]
        for loop in self.loops:
            lines += textwrap.wrap(f"Loop {loop}", _COLUMNS)
        lines += textwrap.wrap(self._rest(), _COLUMNS)
        return "\n".join(line.rstrip() for line in lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        def line(cells: Sequence[str], tag: str) -> str:
            marked = (f"<{tag}>{html.escape(c)}</{tag}>" for c in cells)
            return f"<tr>{''.join(marked)}</tr>"

        head, *body = self._cells()
        rows = [line(head, "th"), *(line(cells, "td") for cells in body)]
        notes = [f"Loop {loop}" for loop in self.loops] + [self._rest()]
        text = "".join(f"<p>{html.escape(note)}</p>" for note in notes)
        return f"<table>{''.join(rows)}</table>{text}"


def _times(row: Row) -> list[str]:
    if row.own_ms is None or row.rule_ms is None:
        return ["", "", ""]
    ratio = f"{row.own_ms / row.rule_ms:.1f}"
    return [f"{row.own_ms:.3f}", f"{row.rule_ms:.3f}", ratio]


class Recorder:
    """Collects what is lowered while a setting has it as its record."""

    def __init__(self) -> None:
        self._calls: dict[tuple[str, str, str], tuple[Row, Call]] = {}
        self._rules: dict[tuple[str, str, str], tuple[str, Rule]] = {}

    def others(self) -> Iterable[tuple[str, Rule]]:
        """All rules that there are."""
        return registry.rules(frozenset(registry.RULES))

    def clear(self) -> None:
        """Forgets everything."""
        self._calls.clear()
        self._rules.clear()

    def add(self, call: Call, taken: tuple[str, Rule] | None) -> None:
        """Called for each call that is lowered."""
        could = [
            (n, r) for n, r, why in call.others if not isinstance(why, str)
        ]
        whys = call.reasons or [
            w for *_, w in call.others if isinstance(w, str)
        ]
        lowered_to, reason = _JAX, "; ".join(dict.fromkeys(whys))
        if taken is not None:
            lowered_to, reason = taken[1].target or "plain HLO", ""
        elif could:
            name, rule = could[0]
            kind = "exact" if rule.exact else "close"
            reason = f'off; enable("{name}") replaces it, with {kind} results'
        types = _types(call.avals)
        row = Row(call.primitive.name, types, 0, lowered_to, reason)
        key = row.primitive, types, lowered_to + reason
        self._calls.setdefault(key, (row, call))[0].count += 1
        if taken or could:
            self._rules[key] = taken or could[0]

    def explanation(
        self, counts: Mapping[tuple[str, str], int], measure: bool
    ) -> Explanation:
        """The table, with the counts of a traced program if there is one."""
        kinds = collections.Counter(key[:2] for key in self._calls)
        for key, (row, call) in self._calls.items():
            if kinds[key[:2]] == 1:  # programs in programs are lowered once
                row.count = counts.get(key[:2], row.count)
            if measure and key in self._rules:
                _measure(row, call, *self._rules[key])
        have_rules = {rule.primitive_name for _, rule in self.others()}
        others = collections.Counter[str]()
        for (name, _), count in counts.items():
            if name not in have_rules | _WRAPPERS:
                others[name] += count
        rows = [row for row, _ in self._calls.values()]
        rows.sort(key=lambda r: (r.lowered_to == _JAX, r.primitive))
        return Explanation(rows, others)


def explain(
    function: Callable[P, object], *, measure: bool = False
) -> Callable[P, Explanation]:
    """Reports what the operations of a function are lowered to, and why.

    It traces and compiles the function under the current setting, and does not
    run it. A function that needs values, for example in an `if`, is run.

    Args:
      function: any function of JAX, jitted or not.
      measure: whether to time each call that is replaced, or could be, beside
        JAX's own code, alone and on random operands.

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
        block = Change(record=recorder)
        _scopes.open_block(block)
        counts = collections.Counter[tuple[str, str]]()
        found: list[Loop] = []
        try:
            trace = getattr(function, "trace", jax.jit(function).trace)
            traced = trace(*args, **kwargs)
            counts.update(_counted(traced.jaxpr))
            lowered = traced.lower()
            if "stablehlo.while" in lowered.as_text():
                names = _setting.current().names
                program = lowered.compile().as_text()
                found = _explain_loops.loops(program or "", names)
        except (TypeError, IndexError):  # it needs values, or is wrong
            recorder.clear()
            counts.clear()
            function(*args, **kwargs)
        finally:
            _scopes.close_block(block)
        explanation = recorder.explanation(counts, measure)
        explanation.loops = found
        recorder.clear()  # JAX keeps it, in the key of what was compiled
        return explanation

    return explained


def _named(value: object) -> str:
    if isinstance(value, jax.Array):
        return f"an array, {value.dtype.name}{list(value.shape)}"
    return repr(value)


def _counted(jaxpr: object) -> Iterator[tuple[str, str]]:
    """Each operation of a program and of the programs in it."""
    jaxpr = getattr(jaxpr, "jaxpr", jaxpr)
    for equation in getattr(jaxpr, "eqns", ()):
        inner = [
            part
            for value in equation.params.values()
            for part in (value if isinstance(value, tuple | list) else (value,))
            if hasattr(getattr(part, "jaxpr", part), "eqns")
        ]
        for part in inner:
            yield from _counted(part)
        if not inner:
            avals = [x.aval for x in equation.invars]
            yield equation.primitive.name, _types(avals)


def _types(avals: Sequence[ShapedArray]) -> str:
    return " ".join(
        aval.str_short(short_dtypes=True)
        if hasattr(aval, "shape")
        else str(aval)
        for aval in avals
    )


def _measure(row: Row, call: Call, name: str, rule: Rule) -> None:
    operands = [_random(aval) for aval in call.avals]

    def run(*arrays: jax.Array) -> object:
        return call.primitive.bind(*arrays, **call.parameters)

    on = Setting(frozenset({name}), ((name, rule),))
    row.own_ms = _milliseconds(run, operands, OFF)
    row.rule_ms = _milliseconds(run, operands, on)


def _milliseconds(
    run: Callable[..., object], operands: Sequence[jax.Array], setting: Setting
) -> float:
    """The median time of a call."""
    with _setting.using(setting):
        compiled = jax.jit(lambda *x: run(*x)).lower(*operands).compile()
    times: list[float] = []
    end = time.perf_counter() + _SECONDS
    jax.block_until_ready(compiled(*operands))
    while len(times) < 3 or time.perf_counter() < end:
        begin = time.perf_counter()
        jax.block_until_ready(compiled(*operands))
        times.append(time.perf_counter() - begin)
    return float(np.median(times)) * 1e3


def _random(aval: ShapedArray) -> jax.Array:
    """An array like the operand."""
    if jax.numpy.issubdtype(aval.dtype, jax.dtypes.prng_key):
        count = int(np.prod(aval.shape))
        keys: jax.Array = jax.random.split(jax.random.key(0), count)
        return keys.reshape(aval.shape)
    random = np.random.default_rng(0)
    if jax.numpy.issubdtype(aval.dtype, np.inexact):
        values = random.standard_normal(aval.shape)
    else:
        values = random.integers(0, 100, aval.shape)
    return jax.numpy.asarray(values).astype(aval.dtype)
