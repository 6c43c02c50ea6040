// Device memory for the length of one call.

#ifndef XLA_FFI_CORE_CUDA_DEVICE_SCRATCH_H_
#define XLA_FFI_CORE_CUDA_DEVICE_SCRATCH_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "xla/ffi/api/ffi.h"

namespace xla_ffi_kit {

// XLA refuses larger ones; what it gives begins at a multiple of 256 anyway.
inline constexpr size_t kMaxScratchAlignment = 16;

// `bytes` of scratch memory, null for none, or RESOURCE_EXHAUSTED. It goes back
// when the handler returns, even if kernels on its stream still use it: whoever
// gets it next uses it on the same stream, after them. A command buffer would
// use it later than that, so that a handler with scratch memory must not be
// marked as compatible with command buffers.
inline xla::ffi::ErrorOr<void*> GetScratch(std::string_view operation,
                                           xla::ffi::ScratchAllocator& scratch,
                                           int64_t bytes) {
  if (bytes == 0) return nullptr;
  const std::optional<void*> memory =
      scratch.Allocate(static_cast<size_t>(bytes), kMaxScratchAlignment);
  if (memory.has_value()) return *memory;
  return xla::ffi::Unexpected(xla::ffi::Error(
      xla::ffi::ErrorCode::kResourceExhausted,
      std::string(operation) + ": scratch memory: expected " +
          std::to_string(bytes) + " bytes on the device, got none"));
}

}  // namespace xla_ffi_kit

#endif  // XLA_FFI_CORE_CUDA_DEVICE_SCRATCH_H_
