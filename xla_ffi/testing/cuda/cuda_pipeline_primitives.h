// CUDA's header of this name, for the emulator: see cuda_runtime.h.

#ifndef XLA_FFI_TESTING_CUDA_CUDA_PIPELINE_PRIMITIVES_H_
#define XLA_FFI_TESTING_CUDA_CUDA_PIPELINE_PRIMITIVES_H_

#include <cstddef>

#include "xla_ffi/testing/cuda/emulator.h"

// NOLINTBEGIN(bugprone-reserved-identifier): CUDA's names.

inline void __pipeline_memcpy_async(void* to, const void* from, size_t bytes) {
  ::xla_ffi_kit::testing::BeginCopy(to, from, bytes);
}
inline void __pipeline_commit() { ::xla_ffi_kit::testing::CommitCopies(); }
inline void __pipeline_wait_prior(size_t prior) {
  ::xla_ffi_kit::testing::WaitForCopies(prior);
}

// NOLINTEND(bugprone-reserved-identifier)

#endif  // XLA_FFI_TESTING_CUDA_CUDA_PIPELINE_PRIMITIVES_H_
