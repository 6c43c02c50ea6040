"""SciPy's K_v(x), which JAX does not have, as a JAX operation with derivatives.

bessel.cc calls SciPy's C function; docs/external_library.md explains it.
`tools/bazel run //examples/bessel` fits the length scale of a Matern covariance
of any smoothness, beside the same through `jax.pure_callback`.
"""

from __future__ import annotations

import ctypes
import functools
import math
import os
import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import scipy.special
from scipy.special import cython_special

import xla_ffi_kit

_library = ctypes.CDLL(
    os.path.join(os.path.dirname(os.path.abspath(__file__)), "bessel_k.so")
)
LIBRARY = xla_ffi_kit.HandlerLibrary.from_capsules(
    {"examples.bessel_k": jax.ffi.pycapsule(_library.ExampleBesselK)},
    name="bessel_k.so",
)
# The C function for double: fused types of Cython are numbered.
_CAPSULE = cython_special.__pyx_capi__["__pyx_fuse_1kv"]


def _address_of(capsule: object) -> int:
    name = ctypes.pythonapi.PyCapsule_GetName
    name.restype, name.argtypes = ctypes.c_char_p, [ctypes.py_object]
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype = ctypes.c_void_p
    pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    signature = name(capsule)
    # Cython names a capsule by the function's type.
    if signature != b"double (double, double, int __pyx_skip_dispatch)":
        raise ImportError(f"SciPy's kv has another type: {signature!r}")
    return pointer(capsule, signature)


_library.ExampleBesselSetKv(ctypes.c_void_p(_address_of(_CAPSULE)))


def _jvp(primals, tangents, *, v):
    """K_v' = -K_(v-1) - v / x K_v, of any order: it calls the operation."""
    (x,), (dx,) = primals, tangents
    y = bessel_k(x, v=v)
    return y, -(bessel_k(x, v=v - 1) + v / x * y) * dx


def _like_x(x, *, v):
    """K_v(x): an array of the shape of x, float64, and the order v."""
    return jax.ShapeDtypeStruct(x.shape, x.dtype)


bessel_k = xla_ffi_kit.FfiOp(
    "examples.bessel_k",
    results=_like_x,
    kernel_axes=0,
    libraries=LIBRARY,
    attributes={"v": np.float64},
    dtypes=["f64"],
    jvp=_jvp,
)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def by_callback(v: float, x: jax.Array) -> jax.Array:
    """The same through Python, for comparison."""
    return jax.pure_callback(
        functools.partial(scipy.special.kv, v),
        jax.ShapeDtypeStruct(x.shape, x.dtype),
        x,
        vmap_method="broadcast_all",
    )


@by_callback.defjvp
def _callback_jvp(v, primals, tangents):
    (x,), (dx,) = primals, tangents
    y = by_callback(v, x)
    return y, -(by_callback(v - 1, x) + v / x * y) * dx


def matern(distance: jax.Array, scale: jax.Array, kv: Callable) -> jax.Array:
    """Matern covariance of smoothness 1.2, which has no closed form."""
    v = 1.2
    r = math.sqrt(2 * v) * distance / scale
    return 2 ** (1 - v) / math.gamma(v) * r**v * kv(v, r)


def fit(kv: Callable, steps: int = 300) -> Callable[[], jax.Array]:
    """A program that fits a length scale of 0.7 by gradient descent."""
    distance = jnp.linspace(0.05, 2.0, 8)
    seen = matern(distance, jnp.asarray(0.7), kv)

    def loss(scale):
        return jnp.sum((matern(distance, scale, kv) - seen) ** 2)

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
    scale, ours = seconds(fit(lambda v, x: bessel_k(x, v=v)))
    other, callback = seconds(fit(by_callback))
    print(f"length scale: {scale:.6f}; by pure_callback: {other:.6f}")
    print(
        f"300 steps: {1e3 * ours:.1f} ms; by pure_callback "
        f"{1e3 * callback:.1f} ms: {callback / ours:.1f} times as fast"
    )


if __name__ == "__main__":
    main()
