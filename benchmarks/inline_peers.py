"""What others offer for the same: those that are installed, and JAX's own."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable

import jax
import numpy as np

import xla_ffi_kit

_TORCH = """
import sys, time
from torch.utils.cpp_extension import load_inline
source = '''
template <typename T>
void run(const at::Tensor& x, double beta, at::Tensor& y) {
  const T* in = x.data_ptr<T>();
  T* out = y.data_ptr<T>();
  for (int64_t i = 0; i < x.numel(); ++i)
    out[i] = T(std::log1p(std::exp(beta * double(in[i]))) / beta);
}
at::Tensor softplus(at::Tensor x, double beta) {
  at::Tensor y = at::empty_like(x);
  run<float>(x, beta, y);
  return y;
}'''
start = time.perf_counter()
load_inline("softplus", source, functions=["softplus"],
            build_directory=sys.argv[1])
print(time.perf_counter() - start)
"""


def calls() -> dict[str, Callable[..., jax.Array]]:
    """factor * x in f32, by name: functions for inside a program."""

    def callback(x: jax.Array, *, factor: float = 1.0) -> jax.Array:
        like = jax.ShapeDtypeStruct(x.shape, x.dtype)
        return jax.pure_callback(lambda x: np.multiply(x, factor), like, x)

    found = {"pure_callback": callback}
    if importlib.util.find_spec("numba") is not None:

        def kernel(x, factor, y):  # type: ignore[no-untyped-def]
            for i in range(x.shape[0]):
                y[i] = factor * x[i]

        @xla_ffi_kit.numba_kernel(kernel, dtypes="f32", kernel_axes=0)
        def by_numba(x: jax.Array, *, factor: float = 1.0) -> jax.Array:
            return factor * x

        found["numba_kernel"] = by_numba
    return found


def torch_cold() -> float | None:
    """Milliseconds of PyTorch's load_inline of softplus, if it is installed."""
    if importlib.util.find_spec("torch") is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        spent = subprocess.run(
            [sys.executable, "-c", _TORCH, folder],
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        ).stdout
    return float(spent.split()[-1]) * 1e3
