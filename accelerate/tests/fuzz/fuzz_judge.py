"""Compares results with JAX's own: by bits, or by a documented bound.

docs/numerics.md states the bounds. Each judge returns a sentence that says what
differs, or None.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from fuzz_program import Program

Leaves: TypeAlias = Sequence[np.ndarray]
# JAX's own code of the program, for other arguments.
Plain: TypeAlias = Callable[..., Leaves]
# For each result, what to compare it with, and how far it may be from that.
Bounds: TypeAlias = tuple[Leaves, Sequence[object]]

# "nans": all NaNs are equal. "flushed": subnormal numbers are zeros, too.
BY_BITS = ("bits", "nans", "flushed")


def leaves(results: object) -> list[np.ndarray]:
    """Results as NumPy's arrays."""
    return [np.asarray(x) for x in jax.tree.leaves(results)]


def by_bits(got: Leaves, want: Leaves, nans: bool) -> str | None:
    """Compares shapes, dtypes and bits; with `nans`, all NaNs are equal."""
    for i, (g, w) in enumerate(zip(got, want, strict=True)):
        if (g.shape, g.dtype) != (w.shape, w.dtype):
            return (
                f"result {i}: expected {w.dtype}{w.shape}, got "
                f"{g.dtype}{g.shape}"
            )
        if g.tobytes() == w.tobytes():
            continue
        differs = (_bytes(g) != _bytes(w)).any(-1)
        if nans and jnp.issubdtype(g.dtype, np.inexact):
            differs &= ~(np.isnan(g) & np.isnan(w))
        if differs.any():
            at = tuple(int(k) for k in np.argwhere(differs)[0])
            return (
                f"result {i}, {differs.sum()} of {differs.size} elements: at "
                f"{at} expected {w[at]!r}, got {g[at]!r}"
            )
    return None


def _bytes(x: np.ndarray) -> np.ndarray:
    flat = np.ascontiguousarray(x).reshape(*x.shape, 1)
    return flat.view(np.uint8)


def _is_subnormal(x: np.ndarray) -> np.ndarray:
    with np.errstate(invalid="ignore"):  # bf16 has NaNs that NumPy reports
        return (np.abs(x) < jnp.finfo(x.dtype).tiny) & (x != 0)


def _flushed(leaves: Leaves, arguments: Leaves) -> Leaves:
    """With zeros for subnormal numbers.

    If there are some among the arguments, zeros lose their signs: those of
    flushed numbers depend on the order of the operands.
    """
    keeps_signs = not any(
        _is_subnormal(x).any()
        for x in arguments
        if jnp.issubdtype(x.dtype, np.floating)
    )

    def flushed(x: np.ndarray) -> np.ndarray:
        if not jnp.issubdtype(x.dtype, np.floating):
            return x
        zero = x.dtype.type(0)
        if keeps_signs:
            return np.where(_is_subnormal(x), np.copysign(zero, x), x)
        return np.where(_is_subnormal(x) | (x == 0), zero, x)

    return [flushed(x) for x in leaves]


@dataclasses.dataclass(frozen=True)
class Run:
    """What a program has returned.

    Attributes:
      program: that has run.
      got: the package's results.
      want: JAX's own.
      arguments: of the program.
      plain: runs JAX's own code for other arguments.
    """

    program: Program
    got: Leaves
    want: Leaves
    arguments: Leaves
    plain: Plain


# Times the bound of one operation: a derivative consists of several, and uses
# their results.
_DERIVATIVE = 32


def _eps(x: np.ndarray) -> float:
    return (
        float(jax.numpy.finfo(x.dtype).eps) if x.dtype.kind not in "iub" else 0
    )


def _is_derivative(program: Program) -> bool:
    return any("jax.grad" in w for w in program.wrappers)


def linear(run: Run) -> Bounds:
    """2 n eps times the sum of the products' magnitudes.

    The program itself, of ones and of the arguments' magnitudes, says how many
    products a result has, and that sum.
    """
    counts = run.plain(*(np.ones_like(x) for x in run.arguments))
    sizes = run.plain(*(np.abs(x) for x in run.arguments))
    return run.want, [
        2 * np.maximum(n, 1) * _eps(w) * s + np.finfo(w.dtype).tiny
        for n, w, s in zip(counts, run.want, sizes, strict=True)
    ]


def solved(run: Run) -> Bounds:
    """8 n eps times the matrix's condition, of the largest result or of one.

    Of a matrix that is singular, only what is not finite has to agree.
    """
    matrices = [
        x
        for x, a in zip(run.arguments, run.program.arrays, strict=True)
        if a.kinds[0] not in ("small", "normal")
    ]
    (a,) = matrices
    condition = np.linalg.cond(a.astype(np.float64)) if a.size else np.ones(())
    condition = condition[..., None, None]
    bounds: list[object] = []
    wants: list[np.ndarray] = []
    for g, w in zip(run.got, run.want, strict=True):
        ok = np.isfinite(g)
        rank = w.ndim - run.program.batch
        axes = tuple(range(run.program.batch, w.ndim))
        size = np.where(np.isfinite(w), np.abs(w), 0)
        size = size.max(axes, keepdims=True, initial=1)
        each = condition.reshape((*condition.shape[:-2], *(1,) * rank))
        times = each * (
            each * _DERIVATIVE if _is_derivative(run.program) else 1
        )
        bound = 8 * a.shape[-1] * _eps(w) * times * size
        is_singular = each > 1e3
        wants.append(np.where(is_singular & (np.isfinite(w) == ok), g, w))
        bounds.append(bound)
    return wants, bounds


_BOUNDS = {"linear": linear, "solved": solved}


def judge(
    program: Program,
    name: str,
    got: Leaves,
    want: Leaves,
    arguments: Sequence[np.ndarray],
    plain: Plain,
) -> str | None:
    """Says how the results of a program differ from JAX's own, if they do.

    Args:
      program: that has run.
      name: one of BY_BITS or of _BOUNDS.
      got: the package's results.
      want: JAX's own.
      arguments: of the program.
      plain: runs JAX's own code for other arguments.
    """
    if name == "flushed":
        got, want = (_flushed(part, arguments) for part in (got, want))
    if name in BY_BITS:
        return by_bits(got, want, name != "bits")
    for i, (g, w) in enumerate(zip(got, want, strict=True)):
        if (g.shape, g.dtype) != (w.shape, w.dtype):
            return (
                f"result {i}: expected {w.dtype}{w.shape}, got "
                f"{g.dtype}{g.shape}"
            )
    with np.errstate(all="ignore"):
        run = Run(program, got, want, arguments, plain)
        wants, bounds = _BOUNDS[name](run)
        for i, (g, w, bound) in enumerate(zip(got, wants, bounds, strict=True)):
            found = within(g, w, bound)
            if found:
                return f"result {i}{found}"
    return None


def within(got: np.ndarray, want: np.ndarray, bound: object) -> str | None:
    """Where `got` is further from `want` than `bound`, if anywhere.

    Numbers that are not finite have to be the same, and anything is right where
    the bound is not a number.
    """
    if got.dtype.kind in "iub":
        found = got != want
        bounds = np.zeros(got.shape)
    else:
        wide = np.complex128 if np.iscomplexobj(got) else np.longdouble
        g, w = got.astype(wide), np.asarray(want).astype(wide)
        bounds = np.broadcast_to(np.asarray(bound, np.float64), g.shape)
        is_same = (g == w) | (np.isnan(g) & np.isnan(w))
        found = ~is_same & ~(np.abs(g - w) <= bounds) & ~np.isnan(bounds)
    if not found.any():
        return None
    at = tuple(int(k) for k in np.argwhere(found)[0])
    return (
        f", {found.sum()} of {found.size} elements: at {at} expected "
        f"{want[at]!r}, got {got[at]!r}, which may differ by {bounds[at]:.3g}"
    )
