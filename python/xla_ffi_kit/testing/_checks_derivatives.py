"""Checks of derivatives: first order, higher orders, and under vmap."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import cast

import jax

from xla_ffi_kit.testing import _case, _linear
from xla_ffi_kit.testing import _programs as programs
from xla_ffi_kit.testing._runner import Call, Failure, Runner, Skipped

# Jacobians have a row per element: only for cases up to this size.
_LARGEST_JACOBIAN = 64


def _says_what_is_linear(
    check: Callable[[Runner], None],
) -> Callable[[Runner], None]:
    """`check`, whose failure says if `linear=` or `bilinear=` is not so."""

    @functools.wraps(check)
    def run_check(run: Runner) -> None:
        try:
            check(run)
        except Failure as failure:
            text = f"{failure}{_linear.contradiction(run)}"
            raise Failure(text, failure.snippet) from failure

    return run_check


def _count_differentiable(run: Runner) -> int:
    count = sum(_case.is_inexact(x) for x in run.case.operands())
    if not count:
        raise Skipped("no floating-point operand")
    return count


@_says_what_is_linear
def jvp(run: Runner) -> None:
    """jvp and linearize, towards all operands and each alone."""
    if run.spec.vjp is not None:
        raise Skipped("vjp= is for reverse mode only")
    count = _count_differentiable(run)
    want = cast(Sequence[object], run.expected(Call(programs.jitted_jvp)))
    run.same(Call(programs.jvp), want=want, factor=4)
    run.same(Call(programs.linearized), want=want[1], factor=4)
    for i in range(count if count > 1 else 0):
        run.same(Call.of(programs.jvp_towards, index=i), factor=4)


@_says_what_is_linear
def grad(run: Runner) -> None:
    """grad towards all operands and each alone, jitted, under remat."""
    count = _count_differentiable(run)
    want = cast(Sequence[object], run.expected(Call(programs.jitted_grad)))
    for program in (programs.grad, programs.jitted_grad, programs.remat_grad):
        run.same(Call(program), want=want, factor=8)
    for i in range(count if count > 1 else 0):
        call = Call.of(programs.grad_towards, index=i)
        run.same(call, want=want[i], factor=8)


@_says_what_is_linear
def second_order(run: Runner) -> None:
    """grad of grad, forward over reverse and reverse over forward."""
    _count_differentiable(run)
    run.same(Call(programs.grad_of_grad), factor=64)
    if run.spec.vjp is None:  # which is for reverse mode alone
        run.same(Call(programs.jvp_of_grad), factor=64)
        run.same(Call(programs.grad_of_jvp), factor=64)


@_says_what_is_linear
def jacobians(run: Runner) -> None:
    """jacfwd, jacrev and hessian."""
    _count_differentiable(run)
    operands = [x for x in run.case.operands() if _case.is_inexact(x)]
    if any(x.dtype.kind == "c" for x in operands):
        raise Skipped("complex Jacobians")
    if sum(x.size for x in operands) > _LARGEST_JACOBIAN:
        raise Skipped(f"more than {_LARGEST_JACOBIAN} elements")
    results = jax.tree.leaves(run.expected(Call(programs.jitted)))
    if not any(_case.is_inexact(y) for y in results):
        raise Skipped("no floating-point result")
    run.same(Call(programs.jacrev), factor=8)
    if run.spec.vjp is None:
        run.same(Call(programs.jacfwd), factor=8)
        run.same(Call(programs.hessian), factor=64)


@_says_what_is_linear
def batched_derivatives(run: Runner) -> None:
    """vmap of grad, grad of vmap, with and without None axes.

    And the gradient of shared operands, which all rows of a call add to.
    """
    _count_differentiable(run)
    count = len(run.spec.operand_names)
    if run.spec.shared:
        rows = _case.call_axes(run.op)
        run.same(Call(programs.grad_of_batch, rows), factor=8)
    for axes in ((0,) * count, (0, *(None,) * (count - 1))):
        for program in (programs.vmap_of_grad, programs.grad_of_vmap):
            run.same(Call.of(program, axes, in_axes=axes), factor=8)
