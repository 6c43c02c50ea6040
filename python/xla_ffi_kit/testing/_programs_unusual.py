"""The programs of `check_op` for unusual calls; see `_programs`."""

from __future__ import annotations

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec

from xla_ffi_kit.testing._programs import (
    Arrays,
    Axes,
    F,
    grad_of_batch,
    mesh_of,
    placed,
)

# --- One device ---------------------------------------------------------------


def ending_in(f: F, x: Arrays, *, value: str, index: int) -> object:
    changed = np.array(x[index])
    changed.flat[-1] = float(value)
    return jax.jit(f)(*x[:index], jnp.asarray(changed), *x[index + 1 :])


def many_times(f: F, x: Arrays, *, count: int) -> object:
    program = jax.jit(f)
    return [program(*x) for _ in range(count)]


def many_rows(f: F, x: Arrays, *, axes: Axes, times: int) -> object:
    def repeated(v: jax.Array, axis: int | None) -> jax.Array:
        ones = (1,) * (v.ndim - 1)
        return v if axis is None else jnp.tile(v, (times, *ones))

    return jax.jit(f)(*map(repeated, x, axes))


def with_attributes(
    f: F, x: Arrays, *, changed: tuple[tuple[str, object], ...], scale: float
) -> object:
    small = [v * scale if jnp.issubdtype(v.dtype, np.inexact) else v for v in x]
    return f(*small, **dict(changed))


def grad_with_attributes(
    f: F, x: Arrays, *, changed: tuple[tuple[str, object], ...]
) -> object:
    return grad_of_batch(functools.partial(f, **dict(changed)), x)


def emptied(x: Arrays, axes: tuple[tuple[int, ...], ...]) -> Arrays:
    def shape(v: jax.Array, empty: tuple[int, ...]) -> list[int]:
        return [0 if i in empty else n for i, n in enumerate(v.shape)]

    return tuple(
        jnp.zeros(shape(v, empty), v.dtype)
        for v, empty in zip(x, axes, strict=True)
    )


def without_elements(
    f: F, x: Arrays, *, axes: tuple[tuple[int, ...], ...]
) -> object:
    return jax.jit(f)(*emptied(x, axes))


# --- Meshes -------------------------------------------------------------------


def vmapped_on_mesh(
    f: F, x: Arrays, *, in_axes: Axes, kind: str
) -> tuple[str, object]:
    mesh = mesh_of(kind)
    with jax.set_mesh(mesh):
        operands = placed(x, in_axes, mesh)
        program = jax.jit(jax.vmap(f, in_axes)).lower(*operands).compile()
        return program.as_text() or "", program(*operands)


def uneven_on_mesh(
    f: F, x: Arrays, *, axes: Axes, kind: str
) -> tuple[str, Callable[[], object]]:
    def longer(v: jax.Array, axis: int | None) -> jax.Array:
        if axis is None:
            return v
        if kind == "Explicit":  # which has no types of uneven shards
            v = jax.sharding.reshard(v, PartitionSpec())
        return jnp.concatenate([v, v[:1]])

    mesh = mesh_of(kind)
    with jax.set_mesh(mesh):
        operands = placed(x, axes, mesh)
        called = jax.jit(lambda *x: f(*map(longer, x, axes)))
        program = called.lower(*operands).compile()
        return program.as_text() or "", lambda: program(*operands)


def unused_twice_on_mesh(f: F, x: Arrays, *, axes: Axes, kind: str) -> object:
    mesh = mesh_of(kind)
    with jax.set_mesh(mesh):
        program = jax.jit(lambda *x: (f(*x), f(*x), 1)[-1])
        return program.lower(*placed(x, axes, mesh)).compile().as_text()
