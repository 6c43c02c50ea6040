"""Operations on a few elements, written out in plain HLO.

XLA's CPU compiler compiles a small loop to one function, unless an operation of
its body calls something: a sort, LAPACK, a library's matrix product.
Each operation of the body is then a task, which costs far more. An operation
that is written out stays in the function, and XLA fuses it with its neighbors.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence

import jax
from jax.core import ShapedArray

from xla_ffi_accelerate import _loops
from xla_ffi_accelerate._rule import Reason, Rule
from xla_ffi_kit import extend

# In a loop of few steps: elements, times the longest axis.
_MAX_PRODUCTS = 32


def rule(
    primitive: str,
    covers: Callable[..., Reason],
    call: Callable[..., jax.Array | Sequence[jax.Array]],
    *,
    exact: bool = False,
    in_loops: bool = True,
    priority: int = 1,
) -> Rule:
    """A rule of plain HLO for static shapes that `covers` finds small.

    Outside of loops (`in_loops`), XLA's own code is as fast. XLA runs a program
    in the caller's thread if it counts fewer than 1,000 operations on floats in
    it; operations in a sort or in LAPACK do not count. So a loop of few steps
    loses more than it gains by many operations.
    """

    @functools.wraps(covers)
    def covers_static(*avals: ShapedArray, **parameters: object) -> Reason:
        if not extend.is_static(*(aval.shape for aval in avals)):
            return "its shape is symbolic"
        reason = covers(*avals, **parameters)
        if reason is not None or not in_loops:
            return reason
        if not _loops.inside():
            return "a few elements are only faster in a loop"
        return _unless_few_steps(avals[0].shape)

    return Rule(primitive, covers_static, call, exact, priority=priority)


def unless_up_to(most: int, sizes: Sequence[int], of: str) -> Reason:
    """Returns the reason unless the size is between 1 and the limit."""
    if 0 < math.prod(sizes) <= most:
        return None
    return f"it is written out for up to {most} {of}"


def _unless_few_steps(shape: Sequence[int]) -> Reason:
    products = math.prod(shape) * max(shape)
    if _loops.few_steps() and products > _MAX_PRODUCTS:
        return _loops.SO_FEW_STEPS
    return None
