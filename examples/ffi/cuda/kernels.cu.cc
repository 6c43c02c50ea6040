#include "examples/ffi/cuda/kernels.h"

#include <array>
#include <cmath>
#include <cstdint>

#include "cuda_runtime.h"
#include "xla_ffi/core/cuda/launch.h"
#include "xla_ffi/core/cuda/pack.h"

namespace ffi_examples {
namespace {

using xla_ffi_kit::LaunchElementwise;
using xla_ffi_kit::Width;

template <typename T, int N>
struct Numbers {
  T values[N];
  T* to;

  __device__ void operator()(int64_t i, Width<1>) const { to[i] = values[i]; }
};

template <typename T, size_t N>
cudaError_t StoreAll(const std::array<T, N>& values, T* to,
                     cudaStream_t stream) {
  Numbers<T, N> numbers = {{}, to};
  for (size_t i = 0; i < N; ++i) numbers.values[i] = values[i];
  return LaunchElementwise<1>(N, numbers, stream);
}

struct AddOneTo {
  const int32_t* x;
  int32_t* y;

  __device__ void operator()(int64_t i, Width<1>) const { y[i] = x[i] + 1; }
};

struct LookUpIn {
  const double* table;
  int64_t size;
  const int32_t* index;
  double* y;

  __device__ void operator()(int64_t i, Width<1>) const {
    const int64_t at = index[i];
    y[i] = at >= 0 && at < size ? table[at] : NAN;
  }
};

}  // namespace

cudaError_t Store(bool value, bool* to, cudaStream_t stream) {
  return StoreAll(std::array<bool, 1>{value}, to, stream);
}
cudaError_t Store(int32_t value, int32_t* to, cudaStream_t stream) {
  return StoreAll(std::array<int32_t, 1>{value}, to, stream);
}
cudaError_t Store(const std::array<int32_t, 4>& values, int32_t* to,
                  cudaStream_t stream) {
  return StoreAll(values, to, stream);
}
cudaError_t Store(const std::array<double, 12>& values, double* to,
                  cudaStream_t stream) {
  return StoreAll(values, to, stream);
}

cudaError_t AddOne(const int32_t* x, int64_t count, int32_t* y,
                   cudaStream_t stream) {
  return LaunchElementwise<1>(count, AddOneTo{x, y}, stream);
}

cudaError_t LookUp(const double* table, int64_t size, const int32_t* index,
                   int64_t count, double* y, cudaStream_t stream) {
  return LaunchElementwise<1>(count, LookUpIn{table, size, index, y}, stream);
}

}  // namespace ffi_examples
