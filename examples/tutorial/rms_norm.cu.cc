// RMS normalization on CUDA devices: chapter 6 of docs/tutorial. The kernel is
// as plain as the loop of rms_norm.cc: a thread for each row.

#include <cstdint>
#include <string>

#include "cuda_runtime.h"
#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

__global__ void RmsNormKernel(float eps, int64_t rows, int64_t n,
                              const float* x, float* y) {
  const int64_t row = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  float squares = 0;
  for (int64_t i = row * n; i < (row + 1) * n; ++i) squares += x[i] * x[i];
  const float scale = 1 / sqrtf(squares / static_cast<float>(n) + eps);
  for (int64_t i = row * n; i < (row + 1) * n; ++i) y[i] = scale * x[i];
}

ffi::Error RmsNormCudaImpl(cudaStream_t stream, float eps,
                           ffi::Buffer<ffi::F32> x,
                           ffi::ResultBuffer<ffi::F32> y) {
  const auto dims = x.dimensions();
  if (dims.size() == 0 || dims.back() == 0) {
    return ffi::Error::InvalidArgument(
        "rms_norm: operand x: expected a last axis of at least one element");
  }
  const int64_t n = dims.back();
  const int64_t rows = static_cast<int64_t>(x.element_count()) / n;
  if (rows == 0) return ffi::Error::Success();
  // RmsNormKernel<<<blocks, 256, 0, stream>>>(...), as the emulator takes it.
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>((rows + 255) / 256));
  config.blockDim = dim3(256);
  config.stream = stream;
  const cudaError_t status = cudaLaunchKernelEx(
      &config, RmsNormKernel, eps, rows, n, x.typed_data(), y->typed_data());
  if (status == cudaSuccess) return ffi::Error::Success();
  return ffi::Error::Internal(std::string("rms_norm: ") +
                              cudaGetErrorString(status));
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(
    RmsNormCuda, RmsNormCudaImpl,
    ffi::Ffi::Bind()
        .Ctx<ffi::PlatformStream<cudaStream_t>>()  // stream
        .Attr<float>("eps")
        .Arg<ffi::Buffer<ffi::F32>>()   // x
        .Ret<ffi::Buffer<ffi::F32>>(),  // y
    {ffi::Traits::kCmdBufferCompatible});
