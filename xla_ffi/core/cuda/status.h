// CUDA's errors as FFI errors that name the operation.

#ifndef XLA_FFI_CORE_CUDA_STATUS_H_
#define XLA_FFI_CORE_CUDA_STATUS_H_

#include <string>
#include <string_view>

#include "cuda_runtime.h"
#include "xla/ffi/api/ffi.h"

namespace xla_ffi_kit {

// Success, or for instance FAILED_PRECONDITION "xla_ffi_kit.relu: launching the
// CUDA kernel: no CUDA-capable device is detected (cudaErrorNoDevice)".
inline xla::ffi::Error CudaStatus(std::string_view operation,
                                  cudaError_t status) {
  using xla::ffi::ErrorCode;
  if (status == cudaSuccess) return {};
  std::string message(operation);
  message.append(": launching the CUDA kernel: ");
  message.append(cudaGetErrorString(status));
  message.append(" (").append(cudaGetErrorName(status)).append(")");
  switch (status) {
    case cudaErrorNoKernelImageForDevice:
      message.append(
          "; rebuild with this GPU's compute capability in "
          "--//third_party/cuda:compute_capabilities");
      return {ErrorCode::kFailedPrecondition, std::move(message)};
    case cudaErrorInsufficientDriver:
      message.append("; update the NVIDIA driver");
      return {ErrorCode::kFailedPrecondition, std::move(message)};
    case cudaErrorNoDevice:
      return {ErrorCode::kFailedPrecondition, std::move(message)};
    case cudaErrorMemoryAllocation:
      return {ErrorCode::kResourceExhausted, std::move(message)};
    default:
      return {ErrorCode::kInternal, std::move(message)};
  }
}

}  // namespace xla_ffi_kit

#endif  // XLA_FFI_CORE_CUDA_STATUS_H_
