"""How far close results may be from what; see docs/numerics.md.

Each function returns, for each result, what to compare it with and how far it
may be from that; anything is right where the bound is not a number.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import TypeAlias

import jax
import numpy as np
from fuzz_program import Program

Leaves: TypeAlias = Sequence[np.ndarray]
Plain: TypeAlias = Callable[..., Leaves]
Bounds: TypeAlias = tuple[Leaves, Sequence[object]]


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
