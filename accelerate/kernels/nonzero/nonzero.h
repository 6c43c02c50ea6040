// The indices of the true elements of each row, on the CPU.

#ifndef ACCELERATE_KERNELS_NONZERO_NONZERO_H_
#define ACCELERATE_KERNELS_NONZERO_NONZERO_H_

#include <cstdint>

#include "xla_ffi/core/executor.h"

namespace xla_ffi_accelerate::nonzero {

using namespace xla_ffi_kit;  // its types and threads

template <typename Index>
struct NonzeroProblem {
  int64_t rows = 0;
  int64_t length = 0;  // of a row of the mask
  int64_t size = 0;    // of a row of indices
  Index fill = 0;
  const uint8_t* mask = nullptr;  // rows * length
  Index* indices = nullptr;       // rows * size
};

// Writes for each row of the mask the indices of its first `size` true
// elements, in order, and `fill` where there are fewer. Index: int32_t or
// int64_t.
template <typename Index>
void Nonzero(const NonzeroProblem<Index>& problem, const Executor& executor);

}  // namespace xla_ffi_accelerate::nonzero

#endif  // ACCELERATE_KERNELS_NONZERO_NONZERO_H_
