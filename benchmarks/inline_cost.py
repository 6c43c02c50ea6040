"""What `xla_ffi_kit.inline` costs: to compile, to start, to call.

    tools/bazel run //benchmarks:inline

Times of compiling are those of fresh processes with an empty cache, the cached
start that of the decorator in another one. A call is one in a chain inside a
compiled program, beside the same loop in a handler written with XLA's own
headers, in a `jax.pure_callback` and, where numba is installed, in Python.
PyTorch's load_inline compiles the same where PyTorch is installed. The last
table is a program that JAX has no fast primitive for, a first-order filter
along rows.
"""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import tempfile

_START = """
import sys, time
import jax
import xla_ffi_kit
start = time.perf_counter()
@xla_ffi_kit.inline(r'''
template <typename T>
void softplus(kit::In<T> x, double beta, kit::Out<T> y) {
  for (int64_t i = 0; i < x.size(); ++i)
    y[i] = T(std::log1p(std::exp(beta * double(x[i]))) / beta);
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


def start(dtypes: str, rounds: int, empty: bool) -> float:
    """Milliseconds of the decorator, the least of several processes."""
    best = float("inf")
    with tempfile.TemporaryDirectory() as folder:
        for i in range(rounds + (not empty)):
            cache = os.path.join(folder, str(i) if empty else "0")
            environment = {
                "XLA_FFI_KIT_CACHE": cache,
                "PYTHONPATH": os.pathsep.join(sys.path),
            }
            spent = subprocess.run(
                [sys.executable, "-c", _START, dtypes],
                env=os.environ | environment,
                check=True,
                stdout=subprocess.PIPE,
                text=True,
            ).stdout
            if empty or i > 0:
                best = min(best, float(spent) * 1e3)
    return best


def calls(folder: pathlib.Path, rounds: int) -> dict[str, float]:
    """Nanoseconds of a call on 32 elements, by handler."""
    import jax
    import jax.numpy as jnp
    import numpy as np

    import call_overhead
    import inline_peers
    import xla_ffi_kit

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
    x = jnp.ones((8, 4), jnp.float32)
    operations = {"inline": scale, "by hand, ffi.h": by_hand}
    compiled = {
        name: jax.jit(call_overhead.chain(op)).lower(x).compile()
        for name, op in (operations | inline_peers.calls()).items()
    }
    times = call_overhead.least(
        {name: lambda run=run: run(x) for name, run in compiled.items()},
        rounds,
        50,
    )
    return {n: 1e3 * t / call_overhead.CHAIN for n, t in times.items()}


def filter_rows(rounds: int) -> dict[str, float]:
    """Milliseconds of a first-order filter of 64 rows of 16384."""
    import jax
    import jax.numpy as jnp

    import call_overhead
    import xla_ffi_kit

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

    x = jax.random.normal(jax.random.key(0), (64, 16384))
    functions = {
        "rows": jax.jit(smooth),
        "lax.scan": jax.jit(lambda x: smooth(x, implementation="reference")),
        "lax.associative_scan": associative,
    }
    want = functions["lax.scan"](x)
    for name, function in functions.items():
        assert jnp.allclose(function(x), want, atol=1e-5), name
    times = call_overhead.least(
        {n: lambda f=f: f(x) for n, f in functions.items()}, rounds, 1
    )
    return {name: spent / 1e3 for name, spent in times.items()}


def main() -> None:
    """Prints the tables."""
    import inline_peers

    rounds = int(sys.argv[1]) if sys.argv[1:] else 5
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XLA_FFI_KIT_CACHE"] = os.path.join(folder, "cache")
        for name, dtypes, empty in (
            ("one dtype, cold", "f32", True),
            ("four dtypes, cold", "f32 f64 bf16 f16", True),
            ("one dtype, cached", "f32", False),
        ):
            print(f"{name:24} {start(dtypes, rounds, empty):8.1f} ms")
        torch = inline_peers.torch_cold()
        if torch is not None:
            print(f"{'PyTorch, cold':24} {torch:8.1f} ms")
        for name, spent in calls(pathlib.Path(folder), 4 * rounds).items():
            print(f"call, {name:18} {spent:8.0f} ns")
        for name, spent in filter_rows(rounds).items():
            print(f"filter, {name:20} {spent:4.1f} ms")


if __name__ == "__main__":
    main()
