// The header that every CUDA handler includes: launches, CUDA's errors as FFI
// errors, and all of xla_ffi/core/handler.h and xla_ffi/core/call.h.

#ifndef XLA_FFI_CORE_CUDA_HANDLER_H_
#define XLA_FFI_CORE_CUDA_HANDLER_H_

#include "cuda_runtime.h"              // IWYU pragma: export
#include "xla_ffi/core/call.h"         // IWYU pragma: export
#include "xla_ffi/core/cuda/launch.h"  // IWYU pragma: export
#include "xla_ffi/core/cuda/status.h"  // IWYU pragma: export
#include "xla_ffi/core/handler.h"      // IWYU pragma: export

#endif  // XLA_FFI_CORE_CUDA_HANDLER_H_
