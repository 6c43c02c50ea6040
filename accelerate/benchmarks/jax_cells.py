"""JAX's functions that names replace, each of a few shapes, and NumPy's."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

Shape = tuple[int, ...]
Arguments = Callable[[Shape, np.random.Generator], tuple[Any, ...]]
_KEY = np.array([1, 2], np.uint32)


@dataclasses.dataclass(frozen=True)
class Case:
    """A function of JAX, what NumPy has for it, and what both are given."""

    own: Callable[..., Any]
    numpy: Callable[..., Any]
    arguments: Arguments
    shapes: tuple[Shape, ...]


def program(name: str) -> Callable[[], Any]:
    """A call of JAX's function, of a cell such as "sort f32/1000"."""
    case, given = _of(name)
    device = jax.block_until_ready(jax.device_put(given))
    return functools.partial(jax.jit(case.own), *device)


def numpy(name: str) -> Callable[[], Any]:
    """A call of NumPy's function."""
    case, given = _of(name)
    return functools.partial(case.numpy, *given)


def names() -> list[str]:
    """All cells, in the page's order."""
    return [
        f"{name}/{'x'.join(map(str, shape))}"
        for name, case in CASES.items()
        for shape in case.shapes
    ]


def _of(name: str) -> tuple[Case, tuple[Any, ...]]:
    of, _, size = name.rpartition("/")
    shape = tuple(map(int, size.split("x")))
    random = np.random.default_rng(0)
    return CASES[of], CASES[of].arguments(shape, random)


# What they are given, of a shape.


def _floats(shape: Shape, random: np.random.Generator) -> tuple[Any, ...]:
    return (random.standard_normal(shape, np.float32),)


def _integers(shape: Shape, random: np.random.Generator) -> tuple[Any, ...]:
    return (random.integers(-(2**31), 2**31, shape, np.int32),)


def _few(shape: Shape, random: np.random.Generator) -> tuple[Any, ...]:
    return (random.integers(0, 4096, shape, np.int32),)


def _mask(shape: Shape, random: np.random.Generator) -> tuple[Any, ...]:
    return (random.integers(0, 3, shape) == 0,)


def _two(shape: Shape, random: np.random.Generator) -> tuple[Any, ...]:
    return *_floats(shape, random), *_floats(shape, random)


def _image(shape: Shape, random: np.random.Generator) -> tuple[Any, ...]:
    return *_floats(shape, random), *_floats((3, 3, 1, shape[-1]), random)


def _system(shape: Shape, random: np.random.Generator) -> tuple[Any, ...]:
    n = shape[-1]
    (a,), (b,) = _floats(shape, random), _floats((*shape[:-1], 1), random)
    return a + 2 * n * np.eye(n, dtype=np.float32), b


def _definite(shape: Shape, random: np.random.Generator) -> tuple[Any, ...]:
    a, _ = _system(shape, random)
    return (a @ a.swapaxes(-1, -2),)


def _like(shape: Shape, random: np.random.Generator) -> tuple[Any, ...]:
    """An array that only its shape is taken of."""
    return (np.zeros(shape, np.uint8),)


# What is called.


def _stable(x: np.ndarray) -> np.ndarray:
    return np.argsort(x, kind="stable")


def _pairs(key: np.ndarray, payload: np.ndarray) -> Any:
    order = _stable(key)
    return key[order], payload[order]


def _top_k(x: np.ndarray, k: int = 64) -> Any:
    """The k largest, in order, with their indices."""
    chosen = np.argpartition(x, -k, axis=-1)[..., -k:]
    values = np.take_along_axis(x, chosen, -1)
    order = np.argsort(-values, axis=-1, kind="stable")
    chosen = np.take_along_axis(chosen, order, -1)
    return np.take_along_axis(x, chosen, -1), chosen


def _choice(x: jax.Array) -> jax.Array:
    key = jax.random.key(0)
    return jax.random.choice(key, x, (x.size // 16,), replace=False)


def _numpy_choice(x: np.ndarray) -> np.ndarray:
    random = np.random.default_rng(0)
    return random.choice(x, x.size // 16, replace=False)


def _depthwise(x: jax.Array, kernel: jax.Array) -> jax.Array:
    return jax.lax.conv_general_dilated(
        *(x, kernel, (1, 1), "SAME"),
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
        feature_group_count=x.shape[-1],
    )


def _input_gradient(x: jax.Array, kernel: jax.Array) -> jax.Array:
    return jax.linear_transpose(lambda y: _depthwise(y, kernel), x)(x)[0]


def _numpy_depthwise(x: np.ndarray, kernel: np.ndarray) -> np.ndarray:
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    height, width = x.shape[1:3]
    return sum(
        padded[:, i : i + height, j : j + width] * kernel[i, j, 0]
        for i in range(3)
        for j in range(3)
    )


def _pool_gradient(x: jax.Array) -> jax.Array:
    def pool(x: jax.Array) -> jax.Array:
        window = (1, 2, 2, 1)
        return jax.lax.reduce_window(
            x, -jnp.inf, jax.lax.max, window, window, "VALID"
        )

    y, transpose = jax.vjp(pool, x)
    return transpose(y)[0]


def _numpy_pool_gradient(x: np.ndarray) -> np.ndarray:
    n, h, w, c = x.shape
    windows = x.reshape(n, h // 2, 2, w // 2, 2, c).swapaxes(2, 3)
    windows = windows.reshape(n, h // 2, w // 2, 4, c)
    first = windows.argmax(3, keepdims=True) == np.arange(4)[:, None]
    chosen = np.where(first, windows, 0).reshape(n, h // 2, w // 2, 2, 2, c)
    return chosen.swapaxes(2, 3).reshape(x.shape)


def _drawn(
    own: Callable[[jax.Array, Shape], jax.Array],
    numpy: Callable[[np.random.Generator, Shape], Any],
    *shapes: Shape,
) -> Case:
    return Case(
        lambda like: own(jax.random.wrap_key_data(_KEY), like.shape),
        lambda like: numpy(np.random.default_rng(0), like.shape),
        _like,
        shapes or _MILLION,
    )


_MILLION: tuple[Shape, ...] = ((16,), (1_000_000,))
_LINES: tuple[Shape, ...] = ((16,), (1_000,), (100_000,), (1_000_000,))
_ROWS: tuple[Shape, ...] = ((1024, 1024), (1_000_000, 8))
_IMAGES: tuple[Shape, ...] = ((1, 8, 8, 32), (8, 64, 64, 32))
_MATRICES: tuple[Shape, ...] = ((10_000, 4, 4), (10_000, 8, 8))

CASES: dict[str, Case] = {
    "sort f32": Case(jnp.sort, np.sort, _floats, (*_LINES, *_ROWS)),
    "sort i32": Case(jnp.sort, np.sort, _integers, (*_LINES, *_ROWS)),
    "argsort f32": Case(jnp.argsort, _stable, _floats, (*_LINES, *_ROWS)),
    "sort key, payload": Case(
        lambda key, payload: jax.lax.sort((key, payload), num_keys=1),
        *(_pairs, _two, _LINES),
    ),
    "lexsort": Case(
        lambda a, b: jnp.lexsort((a, jnp.round(b * 8))),
        lambda a, b: np.lexsort((a, np.round(b * 8))),
        *(_two, _MILLION),
    ),
    "top_k, 64": Case(
        lambda x: jax.lax.top_k(x, 64),
        *(_top_k, _floats, ((1_000,), (1_000_000,), (1024, 1024))),
    ),
    "median": Case(jnp.median, np.median, _floats, _MILLION),
    "percentile, three": Case(
        lambda x: jnp.percentile(x, jnp.array([5.0, 50.0, 95.0])),
        lambda x: np.percentile(x, [5.0, 50.0, 95.0]),
        *(_floats, _MILLION),
    ),
    "unique": Case(
        *(lambda x: jnp.unique(x, size=4096), np.unique, _few, _MILLION)
    ),
    "isin, by sorts": Case(
        lambda x: jnp.isin(x, x[:4096] + 2048, method="sort"),
        lambda x: np.isin(x, x[:4096] + 2048),
        *(_few, _MILLION),
    ),
    "permutation": Case(
        lambda x: jax.random.permutation(jax.random.key(0), x),
        lambda x: np.random.default_rng(0).permutation(x),
        *(_floats, _MILLION),
    ),
    "choice": Case(_choice, _numpy_choice, _floats, _MILLION),
    "argmax f32": Case(
        lambda x: jnp.argmax(x, axis=-1),
        lambda x: np.argmax(x, axis=-1),
        *(_floats, (*_LINES, *_ROWS)),
    ),
    "cumsum f32": Case(
        lambda x: jnp.cumsum(x, axis=-1),
        lambda x: np.cumsum(x, axis=-1),
        *(_floats, (*_LINES, *_ROWS)),
    ),
    "cumsum i32": Case(
        jnp.cumsum, lambda x: np.cumsum(x, dtype=np.int32), _integers, _MILLION
    ),
    "nonzero": Case(
        lambda x: jnp.nonzero(x, size=x.size), np.nonzero, _mask, _MILLION
    ),
    "random bits": _drawn(
        lambda k, s: jax.random.bits(k, s),
        lambda r, s: r.integers(0, 2**32, s, np.uint32),
    ),
    "uniform f32": _drawn(
        lambda k, s: jax.random.uniform(k, s, np.float32),
        lambda r, s: r.random(s, np.float32),
    ),
    "normal f32": _drawn(
        lambda k, s: jax.random.normal(k, s, np.float32),
        lambda r, s: r.standard_normal(s, np.float32),
    ),
    "randint i32": _drawn(
        lambda k, s: jax.random.randint(k, s, 0, 1000, np.int32),
        lambda r, s: r.integers(0, 1000, s, np.int32),
    ),
    "categorical": _drawn(
        lambda k, s: jax.random.categorical(k, jnp.zeros(s, np.float32)),
        lambda r, s: np.argmax(-np.log(r.standard_exponential(s)), -1),
        (10_000, 100),
    ),
    "split": _drawn(
        lambda k, s: jax.random.key_data(jax.random.split(k, s[0])),
        lambda r, s: r.integers(0, 2**32, (*s, 2), np.uint32),
        *((16,), (100_000,)),
    ),
    "max pooling gradient": Case(
        _pool_gradient, _numpy_pool_gradient, _floats, _IMAGES
    ),
    "depthwise": Case(_depthwise, _numpy_depthwise, _image, _IMAGES),
    "depthwise, input gradient": Case(
        _input_gradient,
        lambda x, k: _numpy_depthwise(x, k[::-1, ::-1]),
        *(_image, _IMAGES),
    ),
    "matmul": Case(
        jnp.matmul,
        np.matmul,
        _two,
        ((10, 4, 4), (10_000, 4, 4), (10_000, 6, 6)),
    ),
    "solve": Case(jnp.linalg.solve, np.linalg.solve, _system, _MATRICES),
    "inv": Case(
        lambda a, _: jnp.linalg.inv(a),
        lambda a, _: np.linalg.inv(a),
        *(_system, _MATRICES),
    ),
    "cholesky": Case(
        jnp.linalg.cholesky, np.linalg.cholesky, _definite, _MATRICES
    ),
}
