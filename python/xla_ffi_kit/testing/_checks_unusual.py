"""Checks of calls that programs seldom make, and kernels forget."""

from __future__ import annotations

import contextlib
import functools
import inspect
import types
import typing
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, cast

import jax
import jax.numpy as jnp
import numpy as np

from xla_ffi_kit import _dtypes
from xla_ffi_kit._check import Typed
from xla_ffi_kit.functions.function_library import FunctionLibrary
from xla_ffi_kit.op import python_signature
from xla_ffi_kit.testing import _case, _checks_calls, _compare, _guard
from xla_ffi_kit.testing import _programs as programs
from xla_ffi_kit.testing import _programs_unusual as unusual
from xla_ffi_kit.testing._runner import Call, Failure, Runner, Skipped

_ELEMENTS = 4200  # of a large batch: more than a block of 4,096
# And more than 16 bits count, if a call takes no longer than this.
_ROWS, _SECONDS = 1 << 15, 2e-4
_BYTES = 1 << 26
# A smaller positive number may be a tolerance, without which loops do not end.
_SMALL = 1e-2
_MOST_STRINGS = 6
# What memory is filled with: NaN or -1, zeros, and numbers near the largest.
_MARKS = (0xFF, 0x00, 0x7F)
_UNWRITTEN = 0x5A  # no NaN in any type


# --- Memory -------------------------------------------------------------------


def guarded(run: Runner, operands: Sequence[jax.Array]) -> _guard.GuardedCall:
    """A call of the operation in guarded memory; Skipped if there is none."""
    target = _checks_calls.target_of_platform(run)
    if jax.default_backend() != "cpu":
        raise Skipped("guarded memory is the CPU's")
    attributes = run.case.attributes
    # Lowered, its library is registered.
    f = functools.partial(run.op, **attributes)
    jax.jit(f).lower(*operands)
    _checks_calls.needs_elements(run)
    try:
        return _guard.GuardedCall(run.op, target, operands, attributes)
    except LookupError:
        raise Skipped("XLA does not tell where the handler is") from None


def memory_of_results(run: Runner) -> None:
    """The handler writes nothing outside its results."""
    run.guarded = guarded(run, run.case.operands())
    run.guarded.results()
    problem = run.guarded.overflow()
    if problem:
        raise Failure(problem, run.snippet(_checks_calls.JITTED))


def memory_of_operands(run: Runner) -> None:
    """Results depend on no memory but the operands.

    Neither on what is beside them, nor on what results contain before, nor on
    where they are: operands of other values, in the same place, give what they
    give elsewhere.
    """
    if run.spec.advanced.has_side_effect:
        raise Skipped("the operation has side effects")
    call = run.guarded or guarded(run, run.case.operands())
    results, places = [], []  # kept, so that each call is elsewhere
    for mark in _MARKS:
        results.append(call.results(mark))
        places.append(call.memory)
    first, *others = results
    for other in others:
        _same(run, first, other, f"{_READS}: ", "that memory changes")
    _no_marks(run, first)
    again = run.case.operands(1)
    there = call.results(operands=again, keeps_places=True)
    elsewhere = call.results(operands=again)
    what = "the handler remembers operands by their address: "
    _same(run, elsewhere, there, what, "earlier operands were there")


_READS = (
    "the handler reads memory outside its operands, or results before it "
    "writes them (no result is zero before), or leaves results unwritten"
)


def _same(
    run: Runner,
    first: Sequence[np.ndarray],
    other: Sequence[np.ndarray],
    what: str,
    why: str,
) -> None:
    for i, (a, b) in enumerate(zip(first, other, strict=True)):
        wrong = _first_difference(a, b)
        if wrong:
            raise Failure(
                f"result {i}: {what}{wrong} as {why}",
                run.snippet(_checks_calls.JITTED),
            )


def _no_marks(run: Runner, results: Sequence[np.ndarray]) -> None:
    """A C function's results have no NaN of what they are before it writes."""
    libraries = run.spec.libraries
    if not any(isinstance(lib, FunctionLibrary) for lib in libraries):
        return
    for i, y in enumerate(results):
        if not _is_real(y):
            continue
        marked = np.all(
            y.reshape(*y.shape, 1).view(np.uint8) == _MARKS[0], axis=-1
        )
        if marked.any():
            at = list(map(int, np.argwhere(marked)[0]))
            raise Failure(
                f"result {i}: element {at} is the NaN that is there before the "
                "function is called: it reads the result before it writes it, "
                "as one whose parameter is an operand too (in-out), or does "
                "not write it",
                run.snippet(_checks_calls.JITTED),
            )


def _first_difference(a: np.ndarray, b: np.ndarray) -> str | None:
    if a.tobytes() == b.tobytes():
        return None
    at = next(
        i for i in np.ndindex(a.shape) if a[i].tobytes() != b[i].tobytes()
    )
    return f"element {list(at)} becomes {a[at]} or {b[at]}"


# --- Values -------------------------------------------------------------------


def special_values(run: Runner) -> None:
    """NaN and -0.0 are what they are in the reference.

    Only a result that is NaN in the reference, also if it runs one primitive
    at a time, must be NaN. The sign of a zero counts where the reference has
    the same one and numbers beside zero give results of that sign and of the
    other. A handler may refuse such values.
    """
    if run.spec.reference is None:
        raise Skipped("the operation has no reference")
    xs = run.case.operands()
    floats = [i for i, x in enumerate(xs) if x.size and _is_real(x)]
    if not floats:
        raise Skipped("no real floating-point operand")
    single = any(
        axes and x.shape[-1] == 1
        for x, axes in zip(xs, run.spec.kernel_axes, strict=True)
    )
    for index in floats:
        _compare_special(run, "nan", index)
        # A sum of one number may begin with 0.0, or with that number.
        if not single:
            _compare_special(run, "-0.0", index)


def _compare_special(run: Runner, value: str, index: int) -> None:
    call = Call.of(unusual.ending_in, value=value, index=index)
    try:
        # One primitive at a time only for what differs: it compiles each.
        expected = _has(value, run.run(call, reference=True))
        if value == "-0.0" and _any(expected):
            expected = _and(expected, _crosses_zero(run, index))
        if not _any(expected):
            return
        got = run.run(call)
        missing = _and(expected, [~x for x in _has(value, got)])
        if _any(missing):
            with jax.disable_jit():
                alone = run.run(call, reference=True)
            missing = _and(missing, _has(value, alone))
    except Failure:
        return  # refused
    for i, where in enumerate(missing):
        if where.any():
            at = tuple(np.argwhere(where)[0])
            leaf = np.asarray(jax.tree.leaves(got)[i])
            raise Failure(
                f"with {value} in {run.spec.operand_names[index]}: result {i}: "
                f"element {list(map(int, at))}: expected {value}, got "
                f"{leaf[at]}",
                run.snippet(call),
            )


_Masks: TypeAlias = list[np.ndarray]


def _has(value: str, results: object) -> _Masks:
    """Where results are NaN, or -0.0."""
    masks = []
    for x in jax.tree.leaves(results):
        if not _is_real(x):
            masks.append(np.zeros(x.shape, bool))
            continue
        wide = np.asarray(x).astype(np.float64)
        is_zero = (wide == 0) & np.signbit(wide)
        masks.append(np.isnan(wide) if value == "nan" else is_zero)
    return masks


def _is_finite(results: object) -> bool:
    floats = filter(_case.is_inexact, jax.tree.leaves(results))
    return all(bool(np.isfinite(np.asarray(x)).all()) for x in floats)


def _and(a: _Masks, b: _Masks) -> _Masks:
    return [x & y for x, y in zip(a, b, strict=True)]


def _any(masks: _Masks) -> bool:
    return any(mask.any() for mask in masks)


def _crosses_zero(run: Runner, index: int) -> _Masks:
    """Where results have the sign of a number that is nearly zero."""
    tiny = 16 * float(jnp.finfo(run.case.operands()[index].dtype).tiny)
    below, above = (
        jax.tree.leaves(
            run.run(
                Call.of(unusual.ending_in, value=repr(value), index=index),
                reference=True,
            )
        )
        for value in (-tiny, tiny)
    )
    return [
        np.asarray((a < 0) & (b > 0))
        if _is_real(a) and i not in run.spec.shared_results
        else np.zeros(a.shape, bool)
        for i, (a, b) in enumerate(zip(below, above, strict=True))
    ]


def _is_real(x: Typed) -> bool:
    return jnp.issubdtype(x.dtype, np.floating)


def large_batch(run: Runner) -> None:
    """A batch of more elements than a block of 4,096 is like a small one.

    So is one of more than 32,767 rows, if they are cheap.
    """
    _checks_calls.check_batches(run)
    axes = _case.call_axes(run.op)
    small = Call(programs.eager, axes)
    sizes = [
        x.size
        for x, axis in zip(small.operands(run.case), axes, strict=True)
        if axis == 0
    ]
    if not max(sizes, default=0):
        raise Skipped("no elements")
    times = max(2, -(-_ELEMENTS // max(sizes)))
    many = -(-(_ROWS + 1) // 3)
    size = sum(x.nbytes for x in small.operands(run.case)) * many
    # A sum over so many rows would be another one, rounded.
    if size <= _BYTES and not run.spec.shared_results:
        if run.seconds() <= _SECONDS:
            times = max(times, many)
    call = Call.of(unusual.many_rows, axes, axes=axes, times=times)
    got = jax.tree.leaves(run.run(call))
    want = [
        np.asarray(y) * np.asarray(times if how == "sum" else 1, y.dtype)
        if (how := run.spec.shared_results.get(i))
        else np.tile(y, (times, *(1,) * (y.ndim - 1)))
        for i, y in enumerate(jax.tree.leaves(run.run(small)))
    ]
    factor = 8 if run.spec.shared_results else 1
    what = f"a batch of {3 * times} rows: "
    run.compare(call, got, want, factor=factor, what=what)


def empty_kernel_axis(run: Runner) -> None:
    """Rows without elements give what the reference gives, if it takes them.

    Axes of one size are emptied together. The handler may refuse them.
    """
    if run.spec.reference is None:
        raise Skipped("the operation has no reference")
    operands = run.case.operands()
    if any(jnp.issubdtype(x.dtype, np.integer) for x in operands):
        raise Skipped("an integer may be an index, and empty rows have none")
    shapes = [x.shape for x in operands]
    first = [
        len(s) - n for s, n in zip(shapes, run.spec.kernel_axes, strict=True)
    ]
    sizes = {n for s, i in zip(shapes, first, strict=True) for n in s[i:]}
    sizes -= {0}
    if not sizes:
        raise Skipped("no kernel axes")
    for size in sorted(sizes):
        axes = tuple(
            tuple(j for j in range(i, len(s)) if s[j] == size)
            for s, i in zip(shapes, first, strict=True)
        )
        call = Call.of(unusual.without_elements, axes=axes)
        try:
            want = jax.tree.leaves(run.run(call, reference=True))
            if not any(y.size for y in want):
                continue  # XLA removes the call
            got = _without_elements(run, call)
        except Failure:
            continue  # refused
        what = f"kernel axes of {size} elements emptied: "
        run.compare(call, got, want, what=what)


def _without_elements(run: Runner, call: Call) -> list[object]:
    """The results; what the handler leaves unwritten is no zero by chance."""
    got = jax.tree.leaves(run.run(call))
    axes: Any = dict(call.options)["axes"]
    operands = unusual.emptied(run.case.operands(), axes)
    with contextlib.suppress(Skipped):
        return [*guarded(run, operands).results(_UNWRITTEN)]
    return got


# --- Attributes ---------------------------------------------------------------


def attributes(run: Runner) -> None:
    """The handler heeds each attribute: its results change as they must.

    A number is halved, negative and zero (an integer of at least 2: one more or
    one less), a flag is turned, a string is another one of those that the
    reference compares it with. If ordinary operands do not show the change,
    small ones may. A derivative of the operation's own heeds all of them.
    """
    if not run.spec.attributes:
        raise Skipped("the operation has no attributes")
    defaults = python_signature.defaults(run.spec)
    values = defaults | run.case.attributes
    changed: dict[str, object] = {}
    for name, value in values.items():
        for other in _others(run, name, value):
            if _heeds(run, name, other):
                changed.setdefault(name, other)
    # The reference may return another number of results for other attributes.
    run.same(Call(programs.eager), want=run.expected(_checks_calls.JITTED))
    if changed and _has_own_derivative(run):
        _differentiates(run, changed)


def _others(run: Runner, name: str, value: object) -> list[object]:
    """Other values that an attribute probably may have; none if unknown."""
    if isinstance(value, bool | np.bool_):
        return [not value]
    if isinstance(value, str):
        return [*_strings(run, name, value)]
    if isinstance(value, list | tuple) and value:
        if all(isinstance(v, float) for v in value):
            return [type(value)(v / 2 for v in value)]
        return []
    if not isinstance(value, int | float | np.number):
        return []
    kind = run.spec.attributes.get(name)
    try:
        dtype = _dtypes.parse("attribute", cast(_dtypes.DType, kind))
    except (TypeError, ValueError):
        return []
    if jnp.issubdtype(dtype, np.floating):
        if not value:
            return [0.5, -0.5]
        number = float(value)
        further = [-number, 0.0] if abs(number) >= _SMALL else []
        return [number / 2, *further]
    # 1, 0 and -1 often are signs, modes or axes.
    return [] if value < 2 else [int(value) + 1, int(value) - 1]


def _strings(run: Runner, name: str, value: str) -> list[str]:
    """Strings in the code of the reference, which may be other values."""
    function: Any = run.spec.reference or run.spec.results
    kind = run.spec.parameters.parameters[name].annotation
    strings = [x for x in typing.get_args(kind) if isinstance(x, str)]
    strings += _constants(getattr(inspect.unwrap(function), "__code__", None))
    words = dict.fromkeys(x for x in strings if x.isidentifier() and x != value)
    return list(words)[:_MOST_STRINGS]


def _constants(value: object) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, types.CodeType):
        return _constants(value.co_consts)
    if isinstance(value, tuple | frozenset):
        return [text for part in value for text in _constants(part)]
    return []


def _has_own_derivative(run: Runner) -> bool:
    spec = run.spec
    rules = (spec.jvp, spec.vjp, spec.transpose, spec.advanced.differentiate)
    return any(rule is not None for rule in rules) and any(
        map(_case.is_inexact, run.case.operands())
    )


def _differentiates(run: Runner, changed: Mapping[str, object]) -> None:
    """Compares derivatives with other values of all attributes."""
    call = Call.of(unusual.grad_with_attributes, changed=(*changed.items(),))
    try:
        want = run.run(call, reference=True)
        got = run.run(call)
    except (Failure, Skipped):
        return  # they do not go together
    if not _is_finite(want):
        return
    shown = ", ".join(f"{name}={value!r}" for name, value in changed.items())
    what = f"the derivative with {shown}: "
    run.compare(call, got, want, what=what, factor=8)


def _heeds(run: Runner, name: str, value: object) -> bool:
    """Compares calls with another value; False if the reference refuses it."""
    for scale in (1.0, 2.0**-10):
        call = Call.of(
            unusual.with_attributes, changed=((name, value),), scale=scale
        )
        same = Call.of(unusual.with_attributes, changed=(), scale=scale)
        try:
            want = run.run(call, reference=True)
            before = run.run(same, reference=True)
        except (Failure, Skipped):
            return False
        if _compare.difference(before, want, 4) is None:
            continue  # nothing to see
        if not (_is_finite(before) and _is_finite(want)):
            return False
        try:
            got = run.run(call)
        except Failure:
            if isinstance(value, bool):
                raise
            return False  # refused
        run.compare(call, got, want, what=f"with {name}={value!r}: ")
        return True
    return True
