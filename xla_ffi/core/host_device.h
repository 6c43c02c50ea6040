// Macros for functions that CUDA kernels call too. A C++ compiler sees nothing,
// so that plain C++ tests can run a kernel's arithmetic.

#ifndef XLA_FFI_CORE_HOST_DEVICE_H_
#define XLA_FFI_CORE_HOST_DEVICE_H_

#ifdef __CUDACC__
// nvcc and NVRTC know these words by themselves; here a header has them.
#if !defined(__CUDACC_RTC__) && !defined(__host__)
#include "cuda_runtime.h"
#endif
#define XLA_FFI_KIT_HOST_DEVICE __host__ __device__
#define XLA_FFI_KIT_PRAGMA(text) _Pragma(#text)
// `#pragma unroll n` on the device: keeps up to n loads in flight; without n
// there is no loop left.
#define XLA_FFI_KIT_UNROLL(...) XLA_FFI_KIT_PRAGMA(unroll __VA_ARGS__)
#else
#define XLA_FFI_KIT_HOST_DEVICE
#define XLA_FFI_KIT_UNROLL(...)
#endif

#endif  // XLA_FFI_CORE_HOST_DEVICE_H_
