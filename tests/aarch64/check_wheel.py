"""Compares operations of the installed kit with NumPy; tests/aarch64/run."""

from __future__ import annotations

import platform
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import xla_ffi_accelerate
import xla_ffi_kit


def check(
    name: str,
    function: Callable[..., Any],
    arrays: tuple[np.ndarray, ...],
    expected: np.ndarray,
    tolerance: float = 0,
) -> None:
    """Fails unless the compiled function calls a handler, and is right."""
    compiled = jax.jit(function).lower(*arrays).compile()
    program = compiled.as_text() or ""
    assert "xla_ffi_kit." in program, f"{name}: no handler is called"
    got = np.asarray(compiled(*arrays), expected.dtype)
    np.testing.assert_allclose(
        got, expected, rtol=tolerance, atol=tolerance, err_msg=name
    )
    print(f"passed  {name}", flush=True)


def rms_norm(x: np.ndarray) -> np.ndarray:
    wide = x.astype(np.float64)
    mean = np.mean(wide * wide, axis=-1, keepdims=True)
    return np.asarray(wide / np.sqrt(mean + 1e-6))


def main() -> None:
    print(f"jax {jax.__version__}, {platform.machine()}", flush=True)
    random = np.random.default_rng(0)
    x = random.standard_normal((33, 1001), np.float32)
    check("relu", xla_ffi_kit.relu, (x,), np.maximum(x, 0))
    b, c = x[0, :7], x.ravel()
    repeated = np.resize(b, c.size)
    check("modular_add", xla_ffi_kit.modular_add, (b, c), repeated + c)
    check("rms_norm", xla_ffi_kit.rms_norm, (x,), rms_norm(x), 1e-6)
    xla_ffi_accelerate.enable("sort")
    check("sort", jnp.sort, (x,), np.sort(x))
    whole = random.integers(-9, 9, 100_000, np.int32)
    order = np.argsort(whole, kind="stable")
    check("argsort", jnp.argsort, (whole,), order)


if __name__ == "__main__":
    main()
