"""Whether XLA would make one function of a loop, and of how many tasks else.

JAX's own program of the loop decides, before the kernels are in it. What it
reads and writes is estimated: XLA counts after it has fused operations.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

from jax.core import ShapedArray
from jax.extend.core import ClosedJaxpr, JaxprEqn, Literal, Var

from xla_ffi_kit import extend

# They call something, or are given threads, whatever their size.
_CALLS = frozenset(
    {
        *("approx_top_k", "conv_general_dilated", "fft", "sort", "top_k"),
        *("cholesky", "eig", "eigh", "geqp3", "geqrf", "hessenberg"),
        *("householder_product", "lu", "qr", "schur", "svd"),
        *("symmetric_product", "triangular_solve", "tridiagonal"),
        "tridiagonal_solve",
        *("debug_callback", "ffi_call", "io_callback", "pure_callback"),
        *("infeed", "outfeed"),
    }
)
# They read and write a window of an array, not all of it.
_READS = frozenset({"dynamic_slice", "gather"})
_WRITES = frozenset({"dynamic_update_slice", "scatter", "scatter_add"})
# XLA makes no more than one of them in a fused operation.
_REDUCES = ("arg", "cum", "reduce")
_INNER = frozenset({"cond", "scan", "while"})
# The loop's counter, its test and a copy.
_OF_LOOP = 3
_LARGEST_WRITTEN_OUT = 3  # rows or columns of a product, by XLA

Covers: TypeAlias = Callable[
    [str, Sequence[ShapedArray], Mapping[str, object]], bool
]


@dataclasses.dataclass(eq=False)
class _Value:
    """A value of the body; it has the primitive that makes it, if any."""

    bytes: int = 0
    made_by: str = ""

    @classmethod
    def of(cls, aval: object, made_by: str = "") -> _Value:
        """A value of a type; a token, say, has no bytes."""
        if not isinstance(aval, ShapedArray) or not extend.is_static(
            aval.shape
        ):
            return cls(0, made_by)
        return cls(aval.size * aval.dtype.itemsize, made_by)


@dataclasses.dataclass
class _Operation:
    name: str
    operands: Sequence[_Value]
    results: Sequence[_Value]
    avals: Sequence[ShapedArray]
    params: Mapping[str, object]


def tasks(body: ClosedJaxpr, limit: int, is_written_out: Covers) -> int:
    """The tasks that a call makes of what would be one function.

    Args:
      body: a loop's body, as JAX has it.
      limit: the bytes that a body may read and write.
      is_written_out: whether a rule makes plain HLO of a call of a primitive.

    Returns:
      Their number; 0 if the body is made of tasks even without a call.
    """
    inputs = [_Value.of(x.aval) for x in body.jaxpr.invars]
    operations, outputs = _inlined(body, inputs)
    changed = [x for x in outputs if x not in inputs]
    if any(_is_call(x, is_written_out) for x in operations):
        return 0
    if _traffic(inputs, operations, changed) >= limit:
        return 0
    reduced = sum(x.name.startswith(_REDUCES) for x in operations)
    inner = sum(x.name in _INNER for x in operations)
    return len(changed) + reduced + inner + _OF_LOOP


def _inlined(
    closed: ClosedJaxpr, inputs: Sequence[_Value]
) -> tuple[list[_Operation], list[_Value]]:
    """The operations, with those of functions in their place; the results."""
    jaxpr = closed.jaxpr
    values = dict(zip(jaxpr.invars, inputs, strict=True))
    values.update((x, _Value.of(x.aval)) for x in jaxpr.constvars)
    found: list[_Operation] = []

    def value(x: Var | Literal) -> _Value:
        return _Value() if isinstance(x, Literal) else values[x]

    for equation in jaxpr.eqns:
        name = equation.primitive.name.replace("-", "_")
        operands = [value(x) for x in equation.invars]
        called = list(_programs(equation))
        is_function = name not in _INNER and len(called) == 1
        if is_function and len(called[0].jaxpr.invars) == len(operands):
            inner, results = _inlined(called[0], operands)
            found += inner
        else:
            avals = [x.aval for x in equation.outvars]
            results = [_Value.of(aval, name) for aval in avals]
            of = [x.aval for x in equation.invars]
            params = equation.params
            found.append(_Operation(name, operands, results, of, params))
            for part in called if name in _INNER else ():
                own = [_Value() for _ in part.jaxpr.invars]
                found += _inlined(part, own)[0]
        values.update(zip(equation.outvars, results, strict=True))
    return found, [value(x) for x in jaxpr.outvars]


def _is_call(operation: _Operation, is_written_out: Covers) -> bool:
    """Whether it keeps XLA from making one function of the body."""
    name, avals = operation.name, operation.avals
    if name == "dot_general":
        # A vector's product is a loop of XLA's, whatever its size.
        is_matrix = min(len(x.shape) for x in avals) > 1
        sides = [n for x in avals for n in x.shape]
        is_call = is_matrix and max(sides) > _LARGEST_WRITTEN_OUT
    elif name.startswith("scatter"):
        is_call = math.prod(avals[1].shape[:-1]) != 1
    else:
        is_call = name in _CALLS
    return is_call and not is_written_out(name, avals, operation.params)


def _traffic(
    inputs: Sequence[_Value],
    operations: Sequence[_Operation],
    changed: Sequence[_Value],
) -> int:
    """The bytes that fused operations read and write, roughly."""
    read = set(_read_whole(operations))
    total = sum(x.bytes for x in inputs if x in read)
    total += sum(x.bytes for x in changed if x.made_by not in _WRITES)
    for operation in operations:
        if operation.name in _READS:
            total += sum(x.bytes for x in operation.results)
        elif operation.name.startswith(_REDUCES):
            total += sum(x.bytes for x in operation.operands if x.made_by)
    return total


def _read_whole(operations: Sequence[_Operation]) -> Iterator[_Value]:
    for operation in operations:
        is_window = operation.name in _READS | _WRITES
        yield from operation.operands[1 if is_window else 0 :]


def _programs(equation: JaxprEqn) -> Iterator[ClosedJaxpr]:
    """What an operation runs."""
    for value in equation.params.values():
        for part in value if isinstance(value, tuple | list) else (value,):
            if isinstance(part, ClosedJaxpr):
                yield part
