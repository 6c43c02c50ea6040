// Batches of small matrices on several threads.

#ifndef ACCELERATE_KERNELS_LINALG_LINALG_PARALLEL_H_
#define ACCELERATE_KERNELS_LINALG_LINALG_PARALLEL_H_

#include <algorithm>
#include <cstdint>

#include "xla_ffi/core/batch_shape.h"
#include "xla_ffi/core/checks.h"
#include "xla_ffi/core/executor.h"
#include "xla_ffi/core/parallel_for.h"

namespace xla_ffi_accelerate::linalg {

using namespace xla_ffi_kit;  // its types and threads

// How many matrices there are.
inline int64_t BatchOf(Dimensions matrices) {
  return Product(matrices.first(matrices.size() - 2));
}

// Calls run(begin, end) on parts of the batch that vectors fill.
template <typename T, typename Run>
void ForMatrices(int64_t batch, int64_t elements, const Executor& executor,
                 const Run& run) {
  constexpr int64_t kMatrices = 16;
  // To factorize a matrix takes several times as long as to read it.
  constexpr int64_t kTimes = 4;
  const int64_t bytes =
      kTimes * kMatrices * elements * static_cast<int64_t>(sizeof(T));
  ParallelFor(executor, (batch + kMatrices - 1) / kMatrices, bytes,
              [&](int64_t begin, int64_t end) noexcept {
                run(begin * kMatrices, std::min(end * kMatrices, batch));
              });
}

}  // namespace xla_ffi_accelerate::linalg

#endif  // ACCELERATE_KERNELS_LINALG_LINALG_PARALLEL_H_
