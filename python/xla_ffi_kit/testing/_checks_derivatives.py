"""Checks of derivatives: first order, higher orders, and under vmap."""

from __future__ import annotations

from xla_ffi_kit.testing import _case
from xla_ffi_kit.testing._compare import Runner, Skipped

# Jacobians have a row per element: only for cases up to this size.
_LARGEST_JACOBIAN = 64

_LOSS = "lambda *p: scalar(g(*p))"
_ALL = "tuple(range(len(p)))"
_TANGENTS = "differentiable(f, case.operands(1))[1]"


def _check_differentiable(run: Runner) -> None:
    if not any(_case.is_inexact(x) for x in run.case.operands()):
        raise Skipped("no floating-point operand")


def jvp(run: Runner) -> None:
    """jvp and linearize, towards all operands and each alone."""
    _check_differentiable(run)
    jitted = "jax.jit(lambda p, v: jax.jvp(g, p, v))"
    want = run.reference(f"{jitted}(p, {_TANGENTS})")
    run.same(f"jax.jvp(g, p, {_TANGENTS})", want=want, factor=4)
    linearized = "lambda p, v: jax.linearize(g, *p)[1](*v)"
    run.same(f"jax.jit({linearized})(p, {_TANGENTS})", want=want[1], factor=4)
    count = sum(_case.is_inexact(x) for x in run.case.operands())
    for i in range(count if count > 1 else 0):
        alone = f"lambda v: g(*p[:{i}], v, *p[{i + 1}:])"
        run.same(
            f"jax.jit(lambda p, v: jax.jvp({alone}, (p[{i}],), (v[{i}],)))"
            f"(p, {_TANGENTS})",
            factor=4,
        )


def grad(run: Runner) -> None:
    """grad towards all operands and each alone, jitted, under remat."""
    _check_differentiable(run)
    jitted = f"jax.jit(jax.grad({_LOSS}, {_ALL}))(*p)"
    want = run.reference(jitted)
    run.same(f"jax.grad({_LOSS}, {_ALL})(*p)", want=want, factor=8)
    run.same(jitted, want=want, factor=8)
    remat = f"jax.grad(jax.checkpoint({_LOSS}), {_ALL})"
    run.same(f"jax.jit({remat})(*p)", want=want, factor=8)
    count = sum(_case.is_inexact(x) for x in run.case.operands())
    for i in range(count if count > 1 else 0):
        run.same(f"jax.jit(jax.grad({_LOSS}, {i}))(*p)", want=want[i], factor=8)


def second_order(run: Runner) -> None:
    """grad of grad, forward over reverse and reverse over forward."""
    _check_differentiable(run)
    first = f"jax.grad({_LOSS}, {_ALL})"
    run.same(
        f"jax.jit(jax.grad(lambda *p: scalar({first}(*p)), {_ALL}))(*p)",
        factor=64,
    )
    run.same(
        f"jax.jit(lambda p, v: jax.jvp({first}, p, v))(p, {_TANGENTS})",
        factor=64,
    )
    forward = f"lambda *p: scalar(jax.jvp(g, p, {_TANGENTS})[1])"
    run.same(f"jax.jit(jax.grad({forward}, {_ALL}))(*p)", factor=64)


def jacobians(run: Runner) -> None:
    """jacfwd, jacrev and hessian."""
    _check_differentiable(run)
    operands = [x for x in run.case.operands() if _case.is_inexact(x)]
    if any(x.dtype.kind == "c" for x in operands):
        raise Skipped("complex Jacobians")
    if sum(x.size for x in operands) > _LARGEST_JACOBIAN:
        raise Skipped(f"more than {_LARGEST_JACOBIAN} elements")
    real = (
        "lambda *p: [y for y in jax.tree.leaves(g(*p)) if y.dtype.kind in 'fV']"
    )
    run.same(f"jax.jit(jax.jacfwd({real}, {_ALL}))(*p)", factor=8)
    run.same(f"jax.jit(jax.jacrev({real}, {_ALL}))(*p)", factor=8)
    run.same(f"jax.jit(jax.hessian({_LOSS}, {_ALL}))(*p)", factor=64)


def batched_derivatives(run: Runner) -> None:
    """vmap of grad, grad of vmap, with and without None axes.

    And the gradient of shared operands, which all rows of a call add to.
    """
    _check_differentiable(run)
    count = len(run.op.operand_names)
    everything = f"case.batched({(0,) * count})"
    first = f"case.batched({(0, *(None,) * (count - 1))})"
    # Only operands that have a derivative are differentiated.
    which = "tuple(i for i, v in enumerate(x) if v.dtype.kind in 'fcV')"
    loss = "lambda *p: scalar(f(*p))"
    if run.op.shared:
        rows = f"case.batched({_case.call_axes(run.op)})"
        run.same(f"jax.jit(jax.grad({loss}, {which}))(*x)", rows, factor=8)
    for axes, operands in ((0, everything), ((0,), first)):
        spec = f"({', '.join(map(str, (0, *(None,) * (count - 1))))},)"
        in_axes = "0" if axes == 0 else spec
        run.same(
            f"jax.jit(jax.vmap(jax.grad({loss}, {which}), {in_axes}))(*x)",
            operands,
            factor=8,
        )
        run.same(
            f"jax.jit(jax.grad(lambda *x: scalar(jax.vmap(f, {in_axes})"
            f"(*x)), {which}))(*x)",
            operands,
            factor=8,
        )
