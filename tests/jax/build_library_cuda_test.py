"""A handler library with a CUDA source, compiled by the pinned nvcc."""

import os

import inline_data  # noqa: F401  a cache of the test's own
import pytest

import xla_ffi_kit

# Bazel names the pinned one; //tests/compat has none.
pytestmark = pytest.mark.skipif(
    "NVCC" not in os.environ, reason="needs --config=cuda"
)

KERNEL = """
#include "fill.h"
__global__ void FillKernel(float* y, int64_t n, float value) {
  const int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x;
  if (i < n) y[i] = value;
}
cudaError_t Fill(cudaStream_t stream, float* y, int64_t n, float value) {
  FillKernel<<<(n + 255) / 256, 256, 0, stream>>>(y, n, value);
  return cudaGetLastError();
}
"""

HEADER = """
#include <cuda_runtime_api.h>
#include <cstdint>
cudaError_t Fill(cudaStream_t stream, float* y, int64_t n, float value);
"""

HANDLER = """
#include "fill.h"
#include "xla/ffi/api/ffi.h"
namespace ffi = xla::ffi;
static ffi::Error Run(cudaStream_t stream, float value,
                      ffi::Result<ffi::Buffer<ffi::F32>> y) {
  const auto n = static_cast<int64_t>(y->element_count());
  const cudaError_t error = Fill(stream, y->typed_data(), n, value);
  if (error == cudaSuccess) return ffi::Error::Success();
  return ffi::Error::Internal(cudaGetErrorString(error));
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(
    FillHandler, Run,
    ffi::Ffi::Bind()
        .Ctx<ffi::PlatformStream<cudaStream_t>>()
        .Attr<float>("value")
        .Ret<ffi::Buffer<ffi::F32>>());
"""


def test_it_holds_the_kernel_for_each_gpu(tmp_path, monkeypatch):
    # As Bazel gives it: relative to the runfiles.
    monkeypatch.setenv("NVCC", os.path.abspath(os.environ["NVCC"]))
    for name, text in {
        "fill.cu": KERNEL,
        "fill.h": HEADER,
        "fill_handler.cc": HANDLER,
    }.items():
        (tmp_path / name).write_text(text)
    library = xla_ffi_kit.build_library(
        [tmp_path / "fill.cu", tmp_path / "fill_handler.cc"],
        {"files.fill": "FillHandler"},
        tmp_path / "fill_cuda.so",
        platform="cuda",
        compute_capabilities=["80", "90"],
    )
    assert library.targets == ["files.fill"]
    content = (tmp_path / "fill_cuda.so").read_bytes()
    assert b"sm_80" in content
    assert b"sm_90" in content
    assert b"sm_100" not in content
