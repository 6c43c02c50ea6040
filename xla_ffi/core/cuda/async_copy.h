// Copies from global to shared memory that a thread begins and later waits for:
// they take no registers while they are on their way.
//
// CUDA's cuda_pipeline_primitives.h has the same functions, but needs libcu++
// with its 2,000 files.

#ifndef XLA_FFI_CORE_CUDA_ASYNC_COPY_H_
#define XLA_FFI_CORE_CUDA_ASYNC_COPY_H_

#include "xla_ffi/core/cuda/pack.h"

#if defined(__CUDACC__) && !defined(__NVCC__)
#include "cuda_pipeline_primitives.h"  // the emulator's
#endif

namespace xla_ffi_kit {

#ifdef __CUDACC__

// Begins to copy the pack at `from` to shared memory, past the first cache: it
// is read once. `from` is a multiple of kPackBytes.
__device__ inline void BeginCopy(PackBits* to, const void* from) {
#ifdef __NVCC__
  const auto address = static_cast<unsigned>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address),
               "l"(from)
               : "memory");
#else
  __pipeline_memcpy_async(to, from, kPackBytes);
#endif
}

// Makes a group of the copies that the thread has begun since the last call.
__device__ inline void EndCopyGroup() {
#ifdef __NVCC__
  asm volatile("cp.async.commit_group;" ::: "memory");
#else
  __pipeline_commit();
#endif
}

// Waits for all groups of the thread but the last kLast. Other threads do not
// see them yet.
template <int kLast = 0>
__device__ inline void WaitForCopies() {
#ifdef __NVCC__
  asm volatile("cp.async.wait_group %0;" ::"n"(kLast) : "memory");
#else
  __pipeline_wait_prior(kLast);
#endif
}

// Makes the compiler load values from shared memory again, because registers,
// where it would keep them, are fewer.
__device__ inline void LoadAgain() {
#ifdef __NVCC__
  asm volatile("" ::: "memory");
#endif
}

#endif  // __CUDACC__

}  // namespace xla_ffi_kit

#endif  // XLA_FFI_CORE_CUDA_ASYNC_COPY_H_
