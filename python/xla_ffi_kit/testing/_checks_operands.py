"""Checks of operands whose numbers or sizes are unusual.

Only operands that a case gives by type change: those it gives by value may be
the only ones that the operation takes. A handler may refuse what it gets here,
and where the reference has no finite result, any will do.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from xla_ffi_kit.testing import _case, _checks_calls, _checks_unusual
from xla_ffi_kit.testing import _programs_operands as programs
from xla_ffi_kit.testing._case import Case
from xla_ffi_kit.testing._compare import tolerance_of
from xla_ffi_kit.testing._guard import GuardedCall
from xla_ffi_kit.testing._programs import Arrays
from xla_ffi_kit.testing._runner import Call, Failure, Runner, Skipped

# Beyond it, exp overflows in f32, and a difference of squares has no digit.
_LARGE = 1e3
# Rounding may change a result by so many times what a nudge changes.
_NUDGES = 8
# One more element than a vector register or a small buffer has, a single one,
# and one more than a block has.
_LONGER, _SINGLE, _LONG = 65, 1, 4097
# A cheap reference: so many operations for each long row, of which a loop may
# have as many again for each element.
_OPERATIONS = {False: 1e9, True: 1e6}
_SECONDS = 5e-3
_BY_VALUE = "all operands are given by value"


@dataclasses.dataclass(frozen=True)
class _Change:
    """Operands of a call, changed.

    Attributes:
      what: what they are, for the text of a failure.
      call: the program with these operands.
      operands: they themselves.
      near: calls of which the results are as good.
      in_place: whether the call has to be as it stands, without guarded memory.
    """

    what: str
    call: Call
    operands: Callable[[], Arrays]
    near: Sequence[Call] = ()
    in_place: bool = False


def _typed(run: Runner, *, floats: bool) -> tuple[int, ...]:
    """The operands, of floats or integers, that the case gives by type."""
    operands = [x for x in run.case.given if x is not None]
    kind = np.inexact if floats else np.integer
    return tuple(
        i
        for i, (operand, x) in enumerate(
            zip(operands, run.case.operands(), strict=True)
        )
        if isinstance(operand, str) and x.size and jnp.issubdtype(x.dtype, kind)
    )


def _needs_standard(run: Runner) -> None:
    if run.spec.advanced.has_side_effect:
        raise Skipped("the operation has side effects")
    run.expected(_checks_calls.JITTED)  # Skipped if there is nothing to compare


# --- Numbers ------------------------------------------------------------------


def large_values(run: Runner) -> None:
    """Large numbers, all and in each operand alone, and numbers far from 0."""
    _needs_standard(run)
    which = _typed(run, floats=True)
    if not which:
        raise Skipped(_none(run))
    groups = [which, *((i,) for i in which if len(which) > 1)]
    for group in groups:
        _compare(run, _scaled(run, _LARGE, 0.0, group))
    wide = [
        i
        for i in which
        if _LARGE * float(jnp.finfo(run.case.operands()[i].dtype).eps) < 0.1
    ]
    if wide:
        _compare(run, _scaled(run, 1.0, _LARGE, tuple(wide)))


def _none(run: Runner) -> str:
    operands = run.case.operands()
    if any(map(_case.is_inexact, operands)):
        return _BY_VALUE
    return "no floating-point operand"


def _scaled(
    run: Runner, by: float, plus: float, which: tuple[int, ...]
) -> _Change:
    of = functools.partial(
        Call.of, programs.of_scaled, by=by, plus=plus, which=which
    )
    names = ", ".join(run.spec.operand_names[i] for i in which)
    what = f"{names} times {by:g}" if by != 1 else f"{names} plus {plus:g}"
    return _Change(
        what,
        of(),
        lambda: programs.scaled(run.case.operands(), by, plus, which, 0),
        [of(nudge=nudge) for nudge in (1.0, -1.0)],
    )


def ties(run: Runner) -> None:
    """All elements equal, all zero, and two numbers in turn."""
    _needs_standard(run)
    which = _typed(run, floats=True) or _typed(run, floats=False)
    if not which:
        raise Skipped("no numbers among operands by type")
    for values in ((1.0,), (0.0,), (0.0, 1.0), (1.0, 0.0, 0.0, 1.0)):
        _compare(run, _filled(run, values, which))


def _filled(
    run: Runner, values: tuple[float | int, ...], which: tuple[int, ...]
) -> _Change:
    of = functools.partial(
        Call.of, programs.of_values, values=values, which=which
    )
    operands = run.case.operands()
    near = []
    if all(_case.is_inexact(operands[i]) for i in which):
        eps = max(float(jnp.finfo(operands[i].dtype).eps) for i in which)
        # By one factor, so that what is equal stays equal.
        near = [of(scale=1 + k * eps) for k in (1, -1, 2)]
    shown = ", ".join(map(str, values))
    return _Change(
        f"{', '.join(run.spec.operand_names[i] for i in which)} of {shown}",
        of(),
        lambda: programs.filled(operands, values, which, 1),
        near,
    )


def equal_operands(run: Runner) -> None:
    """One array as several operands: op(x, x)."""
    _needs_standard(run)
    operands = run.case.operands()
    typed = {*_typed(run, floats=True), *_typed(run, floats=False)}
    same = list(range(len(operands)))
    for i in sorted(typed):
        alike = (
            j
            for j in sorted(typed)
            if (operands[j].shape, operands[j].dtype)
            == (operands[i].shape, operands[i].dtype)
        )
        same[i] = next(alike)
    if same == list(range(len(operands))):
        raise Skipped("no two operands of one type")
    of = functools.partial(Call.of, programs.of_equal, same=tuple(same))
    _compare(
        run,
        _Change(
            "one array as several operands",
            of(),
            lambda: programs.chosen(operands, tuple(same), 0),
            [of(nudge=nudge) for nudge in (1.0, -1.0)],
            in_place=True,  # guarded memory would have two copies
        ),
    )


def integers(run: Runner) -> None:
    """Indices out of range, then integers that no float has.

    A handler may refuse an index, or do with it what the reference does. It
    must not read or write outside its arrays; of integers given by value, which
    the operation may need to be as they are, nothing else is checked.
    """
    _needs_standard(run)
    if run.spec.reference is None:
        raise Skipped("the operation has no reference")
    operands = run.case.operands()
    which = _wide_integers(run)
    if not which:
        raise Skipped("no integer operand of 32 or 64 bits")
    typed = tuple(i for i in which if i in _typed(run, floats=False))
    others = [x for i, x in enumerate(operands) if i not in which]
    size = max((n for x in others for n in x.shape), default=0)
    if size:
        _out_of_range(run, which, size)
        for value in (size, -1, -size - 1):
            typed_here = tuple(
                i for i in typed if value > 0 or _is_signed(run, i)
            )
            if typed_here:
                _compare(run, _filled(run, (value,), typed_here))
    if len(typed) < len(operands):
        return
    for digits in (24, 53):  # of f32 and of f64
        odd = 2**digits + 1
        if all(np.iinfo(x.dtype).max > 4 * odd for x in operands):
            _compare(run, _filled(run, (odd, odd + 2, odd + 6), typed))


def _wide_integers(run: Runner) -> tuple[int, ...]:
    return tuple(
        i
        for i, x in enumerate(run.case.operands())
        if x.size
        and jnp.issubdtype(x.dtype, np.integer)
        and x.dtype.itemsize >= 4
    )


def _is_signed(run: Runner, index: int) -> bool:
    return run.case.operands()[index].dtype.kind == "i"


def _out_of_range(run: Runner, which: tuple[int, ...], size: int) -> None:
    """Failure if an index behind the last one is followed."""
    call = run.guarded or _guarded(run)
    if call is None:
        return
    change = _filled(run, (size,), which)
    operands = change.operands()
    try:
        results = [call.results(mark, operands) for mark in (0xFF, 0x00)]
        call.results(operands=operands)
    except Exception:
        return  # refused
    problem = call.overflow()
    pairs = zip(*results, strict=True)
    if problem is None and any(a.tobytes() != b.tobytes() for a, b in pairs):
        problem = (
            "the handler reads memory outside its operands: if these are "
            "indices, let it refuse or do with those out of range what the "
            'reference does; if they cannot be, pass skip=["integers"]'
        )
    if problem:
        raise Failure(
            f"with {change.what}: {problem}", run.snippet(change.call)
        )


# --- Sizes --------------------------------------------------------------------


def other_lengths(run: Runner) -> None:
    """Rows of one element, of 65, and of 4,097 if the reference is cheap.

    Axes of one name, or else of one size, have one length. It stays as it is if
    the signature says it, or if the reference does not read the last element of
    a longer row, as that of a product of quaternions.
    """
    _needs_standard(run)
    is_free = False
    for axes in _axes(run):
        longer = run.with_case(_resized(run, axes, _LONGER))
        if not _reads_the_last(longer, axes):
            continue
        is_free = True
        _compare_length(longer, _LONGER)
        single = run.with_case(_resized(run, axes, _SINGLE))
        _compare_length(single, _SINGLE)
        seconds = longer.seconds(reference=True)
        longer = run.with_case(_resized(run, axes, _LONG))
        if seconds < _SECONDS and _is_cheap(longer, axes):
            _compare_length(longer, _LONG)
    if not is_free:
        raise Skipped("no kernel axes of free length in operands by type")


def _reads_the_last(run: Runner, axes: frozenset[tuple[int, int]]) -> bool:
    """Whether the reference's results depend on all of a row."""
    operands = list(run.case.operands())
    for i, axis in axes:
        x = np.array(operands[i])
        last = np.moveaxis(x, axis, 0)[-1:]
        last[...] = np.nan if _case.is_inexact(operands[i]) else last + 1
        operands[i] = jnp.asarray(x)
    try:
        want = jax.tree.leaves(run.expected(_checks_calls.JITTED))
        got = jax.tree.leaves(jax.jit(run.reference)(*operands))
    except Exception:  # refused
        return False
    pairs = zip(want, got, strict=True)
    return any(
        np.asarray(a).tobytes() != np.asarray(b).tobytes() for a, b in pairs
    )


def _axes(run: Runner) -> list[frozenset[tuple[int, int]]]:
    """Groups of (operand, axis) that have one length, which may change."""
    operands = run.case.operands()
    given = [x for x in run.case.given if x is not None]
    groups: dict[object, set[tuple[int, int]]] = {}
    fixed: set[object] = set()
    for i, (x, operand) in enumerate(
        zip(operands, run.spec.operands, strict=True)
    ):
        for k in range(operand.axes):
            axis = x.ndim - operand.axes + k
            key: object = operand.letters[k] if operand.letters else None
            if key is None:
                key = x.shape[axis]
            groups.setdefault(key, set()).add((i, axis))
            is_told = bool(operand.letters) and str(key).isdecimal()
            if is_told or not isinstance(given[i], str):
                fixed.add(key)
    return [frozenset(g) for key, g in groups.items() if key not in fixed]


def _resized(
    run: Runner, axes: frozenset[tuple[int, int]], length: int
) -> Case:
    operands = iter(enumerate(run.case.operands()))
    given = list(run.case.given)
    for k, one in enumerate(given):
        if one is None:
            continue
        i, x = next(operands)
        if isinstance(one, str):
            sizes = [
                length if (i, axis) in axes else n
                for axis, n in enumerate(x.shape)
            ]
            given[k] = f"{x.dtype.name}[{','.join(map(str, sizes))}]"
    return Case(*given, **run.case.attributes)


def _is_cheap(run: Runner, axes: frozenset[tuple[int, int]]) -> bool:
    """Whether the reference does little for each element of long rows."""
    if len({i for i, _ in axes}) < len(axes):
        return False  # an operand has the axis twice
    if run.spec.reference is None:
        return True  # a function of NumPy, called for each row
    x, f = run.case.operands(), run.reference
    try:
        lowered = jax.jit(f).lower(*x)
        cost: Any = lowered.cost_analysis()
    except Exception:  # refused
        return False
    has_loop = "stablehlo.while" in lowered.as_text()
    count = (cost or {}).get("flops", np.inf)
    return bool(count <= _OPERATIONS[has_loop])


def _compare_length(run: Runner, length: int) -> None:
    """Compares calls of rows of a length."""
    try:
        run.expected(_checks_calls.JITTED)
    except (Failure, Skipped):
        return  # refused
    run.guarded = _guarded(run)
    what = f"rows of {length} elements"
    near = [Call.of(programs.of_nudged, nudge=n) for n in (1.0, -1.0)]
    call = _checks_calls.JITTED
    _compare(run, _Change(what, call, run.case.operands, near))
    which = _typed(run, floats=True)
    if which:  # sums in 16 bits end early
        change = _filled(run, (1.0,), which)
        _compare(run, dataclasses.replace(change, what=f"{what}, all 1"))


def _guarded(run: Runner) -> GuardedCall | None:
    """The call in guarded memory; None if there is none, or it is refused."""
    try:
        return _checks_unusual.guarded(run, run.case.operands())
    except Exception:
        return None


# --- Comparisons --------------------------------------------------------------


def _compare(run: Runner, change: _Change) -> None:
    """Failure if the results for changed operands are not the reference's."""
    try:
        want = jax.tree.leaves(run.run(change.call, reference=True))
        near = [
            jax.tree.leaves(run.run(call, reference=True))
            for call in change.near
        ]
        got = _results(run, change)
    except (Failure, Skipped):
        return  # refused
    what = f"with {change.what}: "
    if run.guarded is not None and not change.in_place:
        problem = run.guarded.overflow()
        if problem:
            raise Failure(what + problem, run.snippet(change.call))
    wide = _wide(run, change)
    slack, compared = [], []
    for i, y in enumerate(want):
        others = [np.asarray(one[i]) for one in near]
        seen, allowed = _rounding(np.asarray(y), others)
        if wide is not None:
            seen &= _is_close(y, wide[i])
        slack.append(allowed)
        is_alike = got[i].shape == y.shape and got[i].dtype == y.dtype
        compared.append(np.where(seen, got[i], y) if is_alike else got[i])
    run.compare(change.call, compared, want, what=what, slack=slack)


def _results(run: Runner, change: _Change) -> list[np.ndarray]:
    if run.guarded is None or change.in_place:
        return [*map(np.asarray, jax.tree.leaves(run.run(change.call)))]
    try:
        return run.guarded.results(operands=change.operands())
    except Exception as error:
        raise Failure(str(error)) from None  # refused


def _wide(run: Runner, change: _Change) -> list[np.ndarray] | None:
    """The reference's results in 32 bits, if the operands have 16.

    Large numbers and long sums overflow in a reference that computes in 16
    bits, and a handler that does not is better. None if there are none.
    """
    operands = change.operands()
    is_small = [_case.is_inexact(x) and x.dtype.itemsize < 4 for x in operands]
    if not any(is_small):
        return None
    wide = [
        x.astype(np.float32) if small else x
        for x, small in zip(operands, is_small, strict=True)
    ]
    try:
        results = jax.jit(run.reference)(*wide)
    except Exception:  # it takes only 16 bits
        return None
    return [*map(np.asarray, jax.tree.leaves(results))]


def _is_close(want: jax.Array, wide: np.ndarray) -> np.ndarray:
    if wide.shape != want.shape or not _case.is_inexact(want):
        return np.ones(want.shape, bool)
    kind = np.complex128 if np.iscomplexobj(wide) else np.float64
    first, second = np.asarray(want).astype(kind), wide.astype(kind)
    with np.errstate(all="ignore"):
        error = np.abs(first - second)
        allowed = tolerance_of(want.dtype)
        close: np.ndarray = error <= allowed * np.maximum(np.abs(second), 1)
    return close


def _rounding(
    want: np.ndarray, near: Sequence[np.ndarray]
) -> tuple[np.ndarray, float]:
    """Which elements to compare, and by how much rounding may change them."""
    seen = np.ones(want.shape, bool)
    if not jnp.issubdtype(want.dtype, np.inexact):
        for other in near:
            seen &= want == other
        return seen, 0.0
    wide = np.complex128 if np.iscomplexobj(want) else np.float64
    first = want.astype(wide)
    seen &= np.isfinite(first)
    allowed = 0.0
    with np.errstate(all="ignore"):
        for other in near:
            second = other.astype(wide)
            seen &= np.isfinite(second)
            changes = np.where(seen, np.abs(first - second), 0)
            allowed = max(allowed, float(np.max(changes, initial=0.0)))
    return seen, _NUDGES * allowed
