"""The programs that `check_op` runs on an operation and on its reference.

`op` is the operation, `f` the same with the case's attributes; `x` are its
operands, `v` others of the same types. The text of a failure contains the
source of the function that failed and of those that it calls here, so that you
can copy it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import jax
import jax.numpy as jnp
from jax import export
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from xla_ffi_kit._check import Typed
from xla_ffi_kit.export import export_checks
from xla_ffi_kit.op import batch_axes
from xla_ffi_kit.op.spec import Combination, Result
from xla_ffi_kit.testing._case import differentiable, scalar

Arrays: TypeAlias = tuple[jax.Array, ...]
F: TypeAlias = Callable[..., Result]
Axes: TypeAlias = tuple[int | None, ...]

# --- Calls --------------------------------------------------------------------


def eager(f: F, x: Arrays) -> object:
    return f(*x)


def jitted(f: F, x: Arrays) -> object:
    return jax.jit(f)(*x)


def lowered_text(f: F, x: Arrays) -> object:
    return jax.jit(f).lower(*x).as_text()


def compiled_text(f: F, x: Arrays) -> object:
    return jax.jit(f).lower(*x).compile().as_text()


def tpu_text(f: F, x: Arrays) -> object:
    return jax.jit(f).trace(*x).lower(lowering_platforms=("tpu",)).as_text()


def twice(f: F, x: Arrays) -> tuple[object, object, object]:
    return jax.jit(f)(*x), jax.jit(f)(*x), tuple(x)


def unused_text(f: F, x: Arrays) -> object:
    return jax.jit(lambda *x: (f(*x), 1)[1]).lower(*x).compile().as_text()


def in_scan(f: F, x: Arrays) -> object:
    rows = tuple(v[None] for v in x)
    return jax.lax.scan(lambda _, row: (None, f(*row)), None, rows, 1)[1]


def in_cond(f: F, x: Arrays) -> object:
    return jax.jit(lambda b: jax.lax.cond(b, f, f, *x))(True)


def in_loop(f: F, x: Arrays) -> object:
    start = jax.tree.map(jnp.zeros_like, f(*x))
    return jax.lax.fori_loop(0, 2, lambda _, y: f(*x), start)


def donating(f: F, x: Arrays, *, donated: tuple[int, ...]) -> object:
    return jax.jit(f, donate_argnums=donated)(*x)


def donating_text(f: F, x: Arrays, *, donated: tuple[int, ...]) -> object:
    jitted = jax.jit(f, donate_argnums=donated)
    return jitted.lower(*x).compile().as_text()


def using_again(f: F, x: Arrays, *, index: int) -> object:
    return jax.jit(lambda *x: (f(*x), x[index] + 1))(*x)


# --- Batches ------------------------------------------------------------------


def whole_and_rows(
    f: F, x: Arrays, *, axes: Axes, shared: tuple[tuple[int, Combination], ...]
) -> tuple[object, object]:
    rows = [
        jax.tree.leaves(
            f(*(v if a is None else v[i] for v, a in zip(x, axes, strict=True)))
        )
        for i in range(3)
    ]
    stacked = [jnp.stack(row) for row in zip(*rows, strict=True)]
    for i, how in shared:
        stacked[i] = batch_axes.COMBINATIONS[how](stacked[i], 0)
    return jax.tree.leaves(f(*x)), stacked


def empty_batch(f: F, x: Arrays, *, axes: Axes) -> object:
    none = (v if a is None else v[:0] for v, a in zip(x, axes, strict=True))
    return jax.jit(f)(*none)


def vmapped(
    f: F, x: Arrays, *, in_axes: int | Axes, out_axes: int = 0
) -> object:
    return jax.vmap(f, in_axes, out_axes)(*x)


def vmapped_text(f: F, x: Arrays, *, in_axes: int | Axes) -> object:
    return str(jax.make_jaxpr(jax.vmap(f, in_axes))(*x))


def nested_vmap(f: F, x: Arrays) -> object:
    outer = (0, *(None for _ in x[1:]))
    return jax.vmap(jax.vmap(f), outer)(x[0][None], *x[1:])


# --- Derivatives --------------------------------------------------------------


def jvp(f: F, x: Arrays, v: Arrays) -> object:
    g, p = differentiable(f, x)
    return jax.jvp(g, p, differentiable(f, v)[1])


def jitted_jvp(f: F, x: Arrays, v: Arrays) -> object:
    g, p = differentiable(f, x)
    return jax.jit(lambda p, t: jax.jvp(g, p, t))(p, differentiable(f, v)[1])


def linearized(f: F, x: Arrays, v: Arrays) -> object:
    g, p = differentiable(f, x)
    push = jax.jit(lambda p, t: jax.linearize(g, *p)[1](*t))
    return push(p, differentiable(f, v)[1])


def jvp_towards(f: F, x: Arrays, v: Arrays, *, index: int) -> object:
    g, p = differentiable(f, x)

    def push(p: Arrays, t: Arrays) -> object:
        def alone(y: jax.Array) -> object:
            return g(*p[:index], y, *p[index + 1 :])

        return jax.jvp(alone, (p[index],), (t[index],))

    return jax.jit(push)(p, differentiable(f, v)[1])


def loss_and_operands(
    f: F, x: Arrays
) -> tuple[Callable[..., jax.Array], Arrays]:
    g, p = differentiable(f, x)
    return lambda *p: scalar(g(*p)), p


def grad(f: F, x: Arrays) -> object:
    loss, p = loss_and_operands(f, x)
    return jax.grad(loss, range(len(p)))(*p)


def jitted_grad(f: F, x: Arrays) -> object:
    loss, p = loss_and_operands(f, x)
    return jax.jit(jax.grad(loss, range(len(p))))(*p)


def remat_grad(f: F, x: Arrays) -> object:
    loss, p = loss_and_operands(f, x)
    return jax.jit(jax.grad(jax.checkpoint(loss), range(len(p))))(*p)


def grad_towards(f: F, x: Arrays, *, index: int) -> object:
    loss, p = loss_and_operands(f, x)
    return jax.jit(jax.grad(loss, index))(*p)


def grad_of_grad(f: F, x: Arrays) -> object:
    loss, p = loss_and_operands(f, x)
    first = jax.grad(loss, range(len(p)))
    second = jax.grad(lambda *p: scalar(first(*p)), range(len(p)))
    return jax.jit(second)(*p)


def jvp_of_grad(f: F, x: Arrays, v: Arrays) -> object:
    loss, p = loss_and_operands(f, x)
    first = jax.grad(loss, range(len(p)))
    tangents = differentiable(f, v)[1]
    return jax.jit(lambda p, t: jax.jvp(first, p, t))(p, tangents)


def grad_of_jvp(f: F, x: Arrays, v: Arrays) -> object:
    g, p = differentiable(f, x)
    tangents = differentiable(f, v)[1]
    loss = lambda *p: scalar(jax.jvp(g, p, tangents)[1])  # noqa: E731
    return jax.jit(jax.grad(loss, range(len(p))))(*p)


def real_results(f: F, x: Arrays) -> tuple[Callable[..., object], Arrays]:
    g, p = differentiable(f, x)

    def call(*p: jax.Array) -> list[jax.Array]:
        leaves = jax.tree.leaves(g(*p))
        return [y for y in leaves if jnp.issubdtype(y.dtype, jnp.floating)]

    return call, p


def jacfwd(f: F, x: Arrays) -> object:
    g, p = real_results(f, x)
    return jax.jit(jax.jacfwd(g, range(len(p))))(*p)


def jacrev(f: F, x: Arrays) -> object:
    g, p = real_results(f, x)
    return jax.jit(jax.jacrev(g, range(len(p))))(*p)


def hessian(f: F, x: Arrays) -> object:
    loss, p = loss_and_operands(f, x)
    return jax.jit(jax.hessian(loss, range(len(p))))(*p)


def gradient(f: F) -> F:
    def towards_floats(*x: jax.Array) -> Arrays:
        floats = tuple(
            i for i, v in enumerate(x) if jnp.issubdtype(v.dtype, jnp.inexact)
        )
        slopes: Arrays = jax.grad(lambda *x: scalar(f(*x)), floats)(*x)
        return slopes

    return towards_floats


def grad_of_batch(f: F, x: Arrays) -> object:
    return jax.jit(gradient(f))(*x)


def vmap_of_grad(f: F, x: Arrays, *, in_axes: int | Axes) -> object:
    return jax.jit(jax.vmap(gradient(f), in_axes))(*x)


def grad_of_vmap(f: F, x: Arrays, *, in_axes: int | Axes) -> object:
    return jax.jit(gradient(jax.vmap(f, in_axes)))(*x)


def slopes_along_a_line(f: F, x: Arrays, *, step: float) -> object:
    """First and second slopes, and a gradient's, by JAX and by differences."""
    g, p = differentiable(f, x)
    t = [jnp.cos(1.3 * jnp.arange(y.size) + y.ndim).reshape(y.shape) for y in p]

    def at(s: jax.Array) -> Arrays:
        found = g(*(a + s * b for a, b in zip(p, t, strict=True)))
        return differentiable(f, jax.tree.leaves(found))[1]

    def slope(s: jax.Array) -> Arrays:
        tangents: Arrays = jax.jvp(at, (s,), (jnp.ones_like(s),))[1]
        return tangents

    def loss(s: jax.Array) -> Arrays:
        return (scalar(at(s)),)

    def back(s: jax.Array) -> Arrays:
        return (jax.grad(lambda s: loss(s)[0])(s),)

    def difference(h: Callable[[jax.Array], Arrays]) -> Arrays:
        below2, below, above, above2 = (
            h(jnp.asarray(steps * step)) for steps in (-2, -1, 1, 2)
        )
        return tuple(
            (a - d + 8 * (c - b)) / (12 * step)
            for a, b, c, d in zip(below2, below, above, above2, strict=True)
        )

    @jax.jit
    def both() -> object:
        zero = jnp.zeros(())
        second = jax.jvp(slope, (zero,), (jnp.ones(()),))[1]
        ways = difference(at), difference(slope), difference(loss)
        return (slope(zero), second, back(zero)), ways

    return both()


# --- Meshes -------------------------------------------------------------------


def mesh_of(kind: str) -> jax.sharding.Mesh:
    kinds = (AxisType[kind],)
    return jax.make_mesh((4,), ("d",), kinds, devices=jax.devices()[:4])


def placed(x: Arrays, axes: Axes, mesh: jax.sharding.Mesh) -> list[jax.Array]:
    rows = NamedSharding(mesh, PartitionSpec("d"))
    whole = NamedSharding(mesh, PartitionSpec())
    return [
        jax.device_put(v, whole if a is None else rows)
        for v, a in zip(x, axes, strict=True)
    ]


def on_mesh(f: F, x: Arrays, *, axes: Axes, kind: str) -> tuple[object, object]:
    mesh = mesh_of(kind)
    with jax.set_mesh(mesh):
        operands = placed(x, axes, mesh)
        program = jax.jit(f).lower(*operands).compile()
        return program.as_text(), program(*operands)


def grad_on_mesh(
    f: F, x: Arrays, *, axes: Axes, kind: str
) -> tuple[object, object]:
    return on_mesh(gradient(f), x, axes=axes, kind=kind)


def in_shard_map(f: F, x: Arrays) -> object:
    def of_shard(*x: jax.Array) -> object:
        return jax.tree.map(lambda y: y[None], f(*(v[0] for v in x)))

    rows = PartitionSpec("d")
    mapped = jax.shard_map(
        of_shard, mesh=mesh_of("Auto"), in_specs=rows, out_specs=rows
    )
    return jax.jit(mapped)(*x)


def grad_of_shard_map(f: F, x: Arrays) -> object:
    def loss(first: jax.Array, *replicated: jax.Array) -> jax.Array:
        of_shard = scalar(f(first[0], *replicated))
        total: jax.Array = jax.lax.psum(of_shard, "d")
        return total

    rows, whole = PartitionSpec("d"), PartitionSpec()
    mapped = jax.shard_map(
        loss,
        mesh=mesh_of("Auto"),
        in_specs=(rows, *(whole for _ in x[1:])),
        out_specs=whole,
    )
    return jax.jit(jax.grad(mapped, range(len(x))))(*x)


def grad_over_rows(f: F, x: Arrays) -> object:
    def loss(first: jax.Array, *others: jax.Array) -> jax.Array:
        return jnp.sum(jax.vmap(lambda row: scalar(f(row, *others)))(first))

    return jax.jit(jax.grad(loss, range(len(x))))(*x)


# --- Export -------------------------------------------------------------------


def exported(f: F, *types: Typed, vjp_order: int = 0) -> export.Exported:
    checks = export_checks()
    program = export.export(jax.jit(f), disabled_checks=checks)(*types)
    return export.deserialize(program.serialize(vjp_order=vjp_order))


def call_exported(f: F, x: Arrays) -> object:
    return exported(f, *x).call(*x)


def grad_of_exported(f: F, x: Arrays) -> object:
    program = exported(f, *x, vjp_order=1)
    return jax.jit(jax.grad(lambda *p: scalar(program.call(*p)), 0))(*x)


def longer(x: Arrays, axes: Axes) -> Arrays:
    return tuple(
        v if a is None else jnp.concatenate([v, v[:2]])
        for v, a in zip(x, axes, strict=True)
    )


def called_with_two_sizes(f: F, x: Arrays, *, axes: Axes) -> object:
    return f(*x), f(*longer(x, axes))


def call_exported_with_two_sizes(f: F, x: Arrays, *, axes: Axes) -> object:
    (size,) = export.symbolic_shape("b")
    types = [
        v if a is None else jax.ShapeDtypeStruct((size, *v.shape[1:]), v.dtype)
        for v, a in zip(x, axes, strict=True)
    ]
    program = exported(f, *types)
    return program.call(*x), program.call(*longer(x, axes))
