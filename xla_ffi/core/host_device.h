// XLA_FFI_KIT_HOST_DEVICE marks functions that CUDA kernels call too; a C++
// compiler sees nothing, so that plain C++ tests can run a kernel's arithmetic.

#ifndef XLA_FFI_CORE_HOST_DEVICE_H_
#define XLA_FFI_CORE_HOST_DEVICE_H_

#ifdef __CUDACC__
#define XLA_FFI_KIT_HOST_DEVICE __host__ __device__
#else
#define XLA_FFI_KIT_HOST_DEVICE
#endif

#endif  // XLA_FFI_CORE_HOST_DEVICE_H_
