"""SciPy's K_n(x), which JAX does not have, as a JAX operation with derivatives.

docs/external_library.md explains it. `tools/bazel run //examples/bessel` fits
the length scale of a Matern covariance, beside the same through
`jax.pure_callback`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
import scipy.special
from scipy.special import cython_special

import xla_ffi_kit


def _jvp(primals, tangents):
    """K_n' = -K_(n-1) - n / x K_n, of any order: it calls the operation."""
    (n, x), (_, dx) = primals, tangents
    y = bessel_k(n, x)
    return y, -(bessel_k(n - 1, x) + n / x * y) * dx


bessel_k = xla_ffi_kit.c_function(
    "double(long n, double x)",
    cython_special.__pyx_capi__["__pyx_fuse_1kn"],
    name="examples.bessel_k",
    jvp=_jvp,
)


@jax.custom_jvp
def by_callback(n: jax.Array, x: jax.Array) -> jax.Array:
    """The same through Python, for comparison."""
    return jax.pure_callback(
        scipy.special.kn,
        jax.ShapeDtypeStruct(x.shape, x.dtype),
        *(n, x),
        vmap_method="broadcast_all",
    )


@by_callback.defjvp
def _callback_jvp(primals, tangents):
    (n, x), (_, dx) = primals, tangents
    y = by_callback(n, x)
    return y, -(by_callback(n - 1, x) + n / x * y) * dx


def matern(distance: jax.Array, scale: jax.Array, kn: Callable) -> jax.Array:
    """Matern covariance of smoothness 1, which has no closed form."""
    r = math.sqrt(2) * distance / scale
    return r * kn(jnp.ones(r.shape, jnp.int64), r)


def fit(kn: Callable, steps: int = 300) -> Callable[[], jax.Array]:
    """A program that fits a length scale of 0.7 by gradient descent."""
    distance = jnp.linspace(0.05, 2.0, 8)
    seen = matern(distance, jnp.asarray(0.7), kn)

    def loss(scale):
        return jnp.sum((matern(distance, scale, kn) - seen) ** 2)

    def step(scale, _):
        return scale - 0.05 * jax.grad(loss)(scale), None

    return jax.jit(lambda: jax.lax.scan(step, jnp.asarray(1.5), None, steps)[0])


def seconds(program: Callable[[], jax.Array]) -> tuple[float, float]:
    """The program's result, and the shortest of three times."""
    result = float(program())
    times = []
    for _ in range(3):
        start = time.perf_counter()
        program().block_until_ready()
        times.append(time.perf_counter() - start)
    return result, min(times)


def main() -> None:
    jax.config.update("jax_enable_x64", True)
    scale, ours = seconds(fit(bessel_k))
    other, callback = seconds(fit(by_callback))
    print(f"length scale: {scale:.6f}; by pure_callback: {other:.6f}")
    print(
        f"300 steps: {1e3 * ours:.1f} ms; by pure_callback "
        f"{1e3 * callback:.1f} ms: {callback / ours:.1f} times as fast"
    )


if __name__ == "__main__":
    main()
