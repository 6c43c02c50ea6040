"""Small matrices and sparse ones under `accelerate()`."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import sparse

from jax_cases import Case, Shape, floats

_MATRICES: tuple[Shape, ...] = ((10, 4, 4), (10_000, 4, 4), (10_000, 6, 6))
# Rows and columns, and elements of each row.
_SPARSE: tuple[Shape, ...] = ((50, 5), (20_000, 20))


def _two_of_them(shape: Shape, random: np.random.Generator) -> tuple[Any, ...]:
    return *floats(shape, random), *floats(shape, random)


def _sparse_and_dense(
    shape: Shape, random: np.random.Generator, columns: Shape = ()
) -> tuple[Any, ...]:
    """Data, coordinates in the order of rows, and the dense operand."""
    size, of_row = shape
    places = np.empty((size * of_row, 2), np.int32)
    places[:, 0] = np.repeat(np.arange(size), of_row)
    places[:, 1] = random.integers(0, size, len(places))
    data = floats((len(places),), random)
    return *data, places, *floats((size, *columns), random)


def _matrix(data: jax.Array, places: jax.Array, size: int) -> Any:
    return sparse.BCOO((data, places), shape=(size, size), indices_sorted=True)


def _bcoo(data: jax.Array, places: jax.Array, rhs: jax.Array) -> Any:
    return _matrix(data, places, len(rhs)) @ rhs


def _bcoo_transposed(data: jax.Array, places: jax.Array, rhs: jax.Array) -> Any:
    return _matrix(data, places, len(rhs)).T @ rhs


def _bcsr(data: jax.Array, places: jax.Array, rhs: jax.Array) -> Any:
    starts = jnp.arange(len(rhs) + 1, dtype=np.int32)
    arrays = (data, places[:, 1], starts * (len(data) // len(rhs)))
    return sparse.BCSR(arrays, shape=(len(rhs),) * 2) @ rhs


def _numpy(data: np.ndarray, places: np.ndarray, rhs: np.ndarray) -> Any:
    products = data.reshape(-1, *(1,) * (rhs.ndim - 1)) * rhs[places[:, 1]]
    return products.reshape(len(rhs), -1, *rhs.shape[1:]).sum(1)


def _numpy_transposed(
    data: np.ndarray, places: np.ndarray, rhs: np.ndarray
) -> Any:
    return np.bincount(places[:, 1], data * rhs[places[:, 0]], len(rhs))


_AND_MATRIX = functools.partial(_sparse_and_dense, columns=(32,))

MATRIX_CASES = (
    Case("matmul, small", jnp.matmul, np.matmul, _two_of_them, _MATRICES),
    Case("BCOO @ vector", _bcoo, _numpy, _sparse_and_dense, _SPARSE),
    Case(
        "BCOO transposed @ vector",
        _bcoo_transposed,
        _numpy_transposed,
        _sparse_and_dense,
        _SPARSE,
    ),
    Case("BCOO @ matrix", _bcoo, _numpy, _AND_MATRIX, _SPARSE),
    Case("BCSR @ vector", _bcsr, _numpy, _sparse_and_dense, _SPARSE),
    Case("BCSR @ matrix", _bcsr, _numpy, _AND_MATRIX, _SPARSE),
)
