// The kernels of the examples. Handlers are plain C++ beside them: nvcc
// compiles a file once for each GPU, and the FFI's headers take it long.

#ifndef EXAMPLES_FFI_CUDA_KERNELS_H_
#define EXAMPLES_FFI_CUDA_KERNELS_H_

#include <array>
#include <cstdint>

#include "cuda_runtime.h"

namespace ffi_examples {

// Numbers of the host as elements on the device. They travel as the kernel's
// argument, which is copied when it is launched: a cudaMemcpyAsync() would read
// them later, when they are gone.
cudaError_t Store(bool value, bool* to, cudaStream_t stream);
cudaError_t Store(int32_t value, int32_t* to, cudaStream_t stream);
cudaError_t Store(const std::array<int32_t, 4>& values, int32_t* to,
                  cudaStream_t stream);
cudaError_t Store(const std::array<double, 12>& values, double* to,
                  cudaStream_t stream);

// y = x + 1. A thread reads its element before it writes it, and no other
// thread's, so that x and y may be one buffer.
cudaError_t AddOne(const int32_t* x, int64_t count, int32_t* y,
                   cudaStream_t stream);

// y[i] = table[index[i]], NaN where the table has no such element.
cudaError_t LookUp(const double* table, int64_t size, const int32_t* index,
                   int64_t count, double* y, cudaStream_t stream);

}  // namespace ffi_examples

#endif  // EXAMPLES_FFI_CUDA_KERNELS_H_
