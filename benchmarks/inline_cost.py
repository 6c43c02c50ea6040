"""What `xla_ffi_kit.inline` costs: to compile, to start, to call.

    tools/bazel run //benchmarks:inline

Times of compiling are those of fresh processes with an empty cache, the cached
start that of the decorator in another one. A call is one in a chain inside a
compiled program, beside the same loop in a handler written with XLA's own
headers, in a `jax.pure_callback` and, where numba is installed, in Python. The
last table is a program that JAX has no fast primitive for, a first-order filter
along rows.
"""

from __future__ import annotations

import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

import call_overhead
import xla_ffi_kit
from bench.measure import least

_SECONDS = 2.0
_STARTS = 5

_START = """
import sys, time
import jax
import xla_ffi_kit
start = time.perf_counter()
@xla_ffi_kit.inline(r'''
template <typename T>
void softplus(kit::In<T> x, double beta, kit::Out<T> y) {
  for (int64_t i = 0; i < x.size(); ++i) {
    const double v = beta * x[i];  // exp(v) is infinite beyond 709
    y[i] = T((std::fmax(v, 0) + std::log1p(std::exp(-std::abs(v)))) / beta);
  }
}''', dtypes=sys.argv[1], kernel_axes=0)
def softplus(x, *, beta=1.0):
    return jax.nn.softplus(beta * x) / beta
print(time.perf_counter() - start)
"""

_HAND_WRITTEN = """
#include "xla/ffi/api/ffi.h"
namespace ffi = xla::ffi;
static ffi::Error Scale(ffi::Buffer<ffi::F32> x, double factor,
                        ffi::ResultBuffer<ffi::F32> y) {
  const float* in = x.typed_data();
  float* out = y->typed_data();
  const int64_t n = x.element_count();
  for (int64_t i = 0; i < n; ++i) out[i] = factor * in[i];
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(
    ScaleByHand, Scale,
    ffi::Ffi::Bind().Arg<ffi::Buffer<ffi::F32>>().Attr<double>("factor")
        .Ret<ffi::Buffer<ffi::F32>>());
"""


def start(dtypes: str, is_cold: bool) -> float:
    """Milliseconds of the decorator, the least of several processes."""
    times = []
    with tempfile.TemporaryDirectory() as folder:
        for i in range(_STARTS + (not is_cold)):
            own = {
                "XLA_FFI_KIT_CACHE": f"{folder}/{i if is_cold else 0}",
                "PYTHONPATH": os.pathsep.join(sys.path),
            }
            spent = subprocess.run(
                [sys.executable, "-c", _START, dtypes],
                env=os.environ | own,
                check=True,
                stdout=subprocess.PIPE,
                text=True,
            ).stdout
            times.append(float(spent) * 1e3)
    return min(times if is_cold else times[1:])


def calls(folder: pathlib.Path) -> dict[str, Callable[..., jax.Array]]:
    """factor * x in f32, by name: functions for inside a program."""

    @xla_ffi_kit.inline(
        "void scale(kit::In<float> x, double factor, kit::Out<float> y) {"
        " for (int64_t i = 0; i < x.size(); ++i) y[i] = factor * x[i]; }",
        kernel_axes=0,
    )
    def scale(x, *, factor=1.0):
        return factor * x

    source = folder / "by_hand.cc"
    source.write_text(_HAND_WRITTEN)
    by_hand = xla_ffi_kit.FfiOp(
        "by_hand",
        scale.reference,
        kernel_axes=0,
        libraries=xla_ffi_kit.build_library(
            [source],
            {"by_hand": "ScaleByHand"},
            folder / "by_hand.so",
            flags=["-march=native"],
        ),
        attributes={"factor": np.float64},
    )

    def callback(x: jax.Array, *, factor: float = 1.0) -> jax.Array:
        like = jax.ShapeDtypeStruct(x.shape, x.dtype)
        return jax.pure_callback(lambda x: np.multiply(x, factor), like, x)

    found = {"inline": scale, "by hand, ffi.h": by_hand}
    found["pure_callback"] = callback
    if importlib.util.find_spec("numba") is not None:

        def kernel(x, factor, y):
            for i in range(x.shape[0]):
                y[i] = factor * x[i]

        make = xla_ffi_kit.numba_kernel(kernel, dtypes="f32", kernel_axes=0)
        found["numba_kernel"] = make(scale.reference)
    return found


def filters(x: jax.Array) -> dict[str, Callable[[jax.Array], jax.Array]]:
    """A first-order filter of rows by name, with the same results on x."""

    @xla_ffi_kit.rows(
        """
        A state = 0;
        for (int64_t i = 0; i < x.size(); ++i)
          out[i] = state = a * x[i] + (1 - a) * state;
        """,
        dtypes="f32",
    )
    def smooth(x, *, a=0.1):
        def step(state, value):
            state = a * value + (1 - a) * state
            return state, state

        first = jnp.zeros(x.shape[:-1], x.dtype)
        return jnp.moveaxis(
            jax.lax.scan(step, first, jnp.moveaxis(x, -1, 0))[1], 0, -1
        )

    @jax.jit
    def associative(x, a=0.1):
        def combine(left, right):
            return left[0] * right[0], right[0] * left[1] + right[1]

        factors = jnp.full_like(x, 1 - a)
        return jax.lax.associative_scan(combine, (factors, a * x), axis=-1)[1]

    functions = {
        "rows": jax.jit(smooth),
        "lax.scan": jax.jit(lambda x: smooth(x, implementation="reference")),
        "lax.associative_scan": associative,
    }
    want = functions["lax.scan"](x)
    for name, function in functions.items():
        assert jnp.allclose(function(x), want, atol=1e-5), name
    return functions


def main() -> None:
    """Prints the tables."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XLA_FFI_KIT_CACHE"] = os.path.join(folder, "cache")
        for name, dtypes, is_cold in (
            ("one dtype, cold", "f32", True),
            ("four dtypes, cold", "f32 f64 bf16 f16", True),
            ("one dtype, cached", "f32", False),
        ):
            print(f"{name:24} {start(dtypes, is_cold):8.1f} ms")
        x = jnp.ones((8, 4), jnp.float32)
        found = calls(pathlib.Path(folder))
        times = call_overhead.in_a_chain(found, x, _SECONDS)
        for name, spent in times.items():
            print(f"call, {name:18} {spent * 1e3:8.0f} ns")
        x = jax.random.normal(jax.random.key(0), (64, 16384))
        runs = {n: lambda f=f: f(x) for n, f in filters(x).items()}
        for name, spent in least(runs, _SECONDS).items():
            print(f"filter, {name:20} {spent / 1e3:4.1f} ms")


if __name__ == "__main__":
    main()
