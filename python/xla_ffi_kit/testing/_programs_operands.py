"""The programs of `check_op` for unusual operands; see `_programs`.

`nudge` moves each number by so many units in its last place, up or down: what
that changes of the reference's results is what rounding may change.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from xla_ffi_kit.testing._programs import Arrays, F


def nudged(v: jax.Array, wide: np.ndarray, nudge: float) -> jax.Array:
    """Numbers of v's type, each a little more or less."""
    if jnp.issubdtype(v.dtype, np.inexact):
        signs = np.where(np.cos(np.arange(v.size)) > 0, 1, -1)
        step = nudge * float(jnp.finfo(v.dtype).eps)
        wide = wide * (1 + step * signs.reshape(v.shape))
    return jnp.asarray(wide.astype(v.dtype))


def scaled(
    x: Arrays, by: float, plus: float, which: tuple[int, ...], nudge: float
) -> Arrays:
    changed = list(x)
    for i in which:
        kind = complex if jnp.iscomplexobj(x[i]) else float
        wide = np.asarray(x[i]).astype(kind) * by + plus
        changed[i] = nudged(x[i], wide, nudge)
    return tuple(changed)


def of_scaled(
    f: F,
    x: Arrays,
    *,
    by: float,
    plus: float,
    which: tuple[int, ...],
    nudge: float = 0,
) -> object:
    return jax.jit(f)(*scaled(x, by, plus, which, nudge))


def filled(
    x: Arrays,
    values: tuple[float, ...],
    which: tuple[int, ...],
    scale: float,
) -> Arrays:
    changed = list(x)
    for i in which:
        wide = np.resize(np.array(values), x[i].shape)
        wide = wide if scale == 1 else wide * scale
        changed[i] = jnp.asarray(wide.astype(x[i].dtype))
    return tuple(changed)


def of_values(
    f: F,
    x: Arrays,
    *,
    values: tuple[float, ...],
    which: tuple[int, ...],
    scale: float = 1,
) -> object:
    return jax.jit(f)(*filled(x, values, which, scale))


def chosen(x: Arrays, same: tuple[int, ...], nudge: float) -> Arrays:
    first = [nudged(v, np.asarray(v), nudge) if nudge else v for v in x]
    return tuple(first[i] for i in same)


def of_equal(
    f: F, x: Arrays, *, same: tuple[int, ...], nudge: float = 0
) -> object:
    return jax.jit(f)(*chosen(x, same, nudge))


def of_nudged(f: F, x: Arrays, *, nudge: float) -> object:
    which = tuple(range(len(x)))
    return jax.jit(f)(*scaled(x, 1, 0, which, nudge))
