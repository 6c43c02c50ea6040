"""Compares results, up to differences that rounding explains."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from xla_ffi_kit.testing import _case

# Allowed error relative to the largest value of the result (and to 1).
TOLERANCES = {
    "float16": 4e-3,
    "bfloat16": 3e-2,
    "float32": 2e-5,
    "float64": 1e-12,
    "complex64": 2e-5,
    "complex128": 1e-12,
}


# The same for finite differences. The host function of those of float32 may
# compute in float32.
FINITE_DIFFERENCES = {"float64": 1e-6, "complex128": 1e-6}

# Where all of a result is smaller than 1, its error may not be more than this
# share of the largest value, though that be within the tolerance of 1. Where it
# is smaller than the noise of numbers of size 1, it may be their difference:
# 256 units of the type, or what finite differences leave.
_GROSS_ERROR = 0.05
_UNITS_OF_NOISE = 256
_NOISE_OF_DIFFERENCES = {"float64": 1e-9, "complex128": 1e-9}


def tolerance_of(dtype: np.dtype[np.generic]) -> float:
    """The allowed error of a type; of a float of 8 bits, two units."""
    if dtype.name in TOLERANCES or not jnp.issubdtype(dtype, np.inexact):
        return TOLERANCES.get(dtype.name, 0.0)
    return 2 * float(jnp.finfo(dtype).eps)


def difference(
    got: object,
    want: object,
    factor: float = 1,
    differences: bool = False,
    slack: Sequence[float] = (),
) -> str | None:
    """Describes how two results differ; None if they are within tolerance.

    `slack` is what each result may differ by beside that.
    """
    got_leaves, got_tree = jax.tree.flatten(got)
    want_leaves, want_tree = jax.tree.flatten(want)
    if str(got_tree) != str(want_tree):
        return f"expected the structure {want_tree}, got {got_tree}"
    for i, (a, b) in enumerate(zip(got_leaves, want_leaves, strict=True)):
        if a.shape != b.shape or a.dtype != b.dtype:
            return (
                f"result {i}: expected {b.dtype}{list(b.shape)}, got "
                f"{a.dtype}{list(a.shape)}"
            )
        tolerance = factor * tolerance_of(a.dtype)
        noise = factor * _noise_of(a.dtype, differences)
        if differences:
            floor = FINITE_DIFFERENCES.get(a.dtype.name, 1e-3)
            tolerance = max(tolerance, floor)
        extra = slack[i] if slack else 0.0
        problem = _values_differ(a, b, tolerance, extra, noise)
        if problem:
            return f"result {i}: {problem}"
    return None


def _noise_of(dtype: np.dtype[np.generic], differences: bool) -> float:
    if not jnp.issubdtype(dtype, np.inexact):
        return np.inf
    if differences:
        return _NOISE_OF_DIFFERENCES.get(dtype.name, 1.0)
    return _UNITS_OF_NOISE * float(jnp.finfo(dtype).eps)


def _values_differ(
    got: jax.Array,
    want: jax.Array,
    tolerance: float,
    slack: float,
    noise: float,
) -> str | None:
    if got.size == 0 or got.dtype == jax.dtypes.float0:
        return None
    wide = "complex128" if np.iscomplexobj(got) else "float64"
    if not _case.is_inexact(got):
        wide = "int64" if got.dtype.itemsize < 8 else got.dtype.name
    a, b = np.asarray(got).astype(wide), np.asarray(want).astype(wide)
    same = (a == b) | ((a != a) & (b != b))
    if same.all():
        return None
    finite = np.isfinite(a) & np.isfinite(b) | same
    with np.errstate(all="ignore"):
        largest = np.max(np.abs(np.where(np.isfinite(b), b, 0)), initial=0.0)
        error = np.where(same, 0, np.abs(a - b))
    allowed = tolerance * max(largest, 1.0)
    if noise < largest < 1:
        allowed = min(allowed, _GROSS_ERROR * largest)
    allowed += slack
    if finite.all() and np.max(error) <= allowed:
        return None
    at = np.unravel_index(
        np.argmax(np.where(finite, error, np.inf)), error.shape
    )
    return (
        f"element {list(map(int, at))}: expected {b[at]}, got {a[at]} "
        f"(tolerance {allowed:.2g})"
    )
