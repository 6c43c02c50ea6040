// Functions that the threads of a block call together, for kernels of
// `xla_ffi_kit.cuda`. Blocks consist of whole warps.

#ifndef XLA_FFI_STRINGS_CUDA_BLOCK_H_
#define XLA_FFI_STRINGS_CUDA_BLOCK_H_

#include "xla_ffi/strings/cuda/standard.h"

namespace kit {

// The number of the thread in its block, along all axes.
inline int block_thread() {
  return static_cast<int>(
      threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z));
}
inline int block_threads() {
  return static_cast<int>(blockDim.x * blockDim.y * blockDim.z);
}

// The block's dynamic shared memory, aligned to 16 bytes: as much of it as the
// operation's `shared_memory` says.
template <typename T>
T* shared_memory() {
#ifdef __CUDACC_RTC__
  extern __shared__ uint4 kit_dynamic[];
  return reinterpret_cast<T*>(kit_dynamic);
#else
  return reinterpret_cast<T*>(::xla_ffi_kit::dynamic);
#endif
}

// The value of function(function(a, b), c)... over a warp, in all of its
// threads, which have to call it together; in no particular order.
template <typename T, typename Function>
T warp_reduce(T value, const Function& function) {
#pragma unroll
  for (int other = 16; other > 0; other /= 2) {
    value = function(value, __shfl_xor_sync(0xffffffff, value, other));
  }
  return value;
}

// Reduces over a block in the same way.
template <typename T, typename Function>
T block_reduce(T value, const Function& function) {
  __shared__ T of_warps[32];
  const int thread = block_thread(), warps = block_threads() / 32;
  value = warp_reduce(value, function);
  if (thread % 32 == 0) of_warps[thread / 32] = value;
  __syncthreads();
  T all = of_warps[0];
  for (int i = 1; i < warps; ++i) all = function(all, of_warps[i]);
  // The next call writes to the same place.
  __syncthreads();
  return all;
}

template <typename T>
T warp_sum(T value) {
  return warp_reduce(value, [](T a, T b) { return a + b; });
}
template <typename T>
T warp_max(T value) {
  return warp_reduce(value, [](T a, T b) { return a < b ? b : a; });
}
template <typename T>
T warp_min(T value) {
  return warp_reduce(value, [](T a, T b) { return b < a ? b : a; });
}
template <typename T>
T block_sum(T value) {
  return block_reduce(value, [](T a, T b) { return a + b; });
}
template <typename T>
T block_max(T value) {
  return block_reduce(value, [](T a, T b) { return a < b ? b : a; });
}
template <typename T>
T block_min(T value) {
  return block_reduce(value, [](T a, T b) { return b < a ? b : a; });
}

}  // namespace kit

#endif  // XLA_FFI_STRINGS_CUDA_BLOCK_H_
