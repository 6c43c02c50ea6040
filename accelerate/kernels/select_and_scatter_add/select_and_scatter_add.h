// The gradient of max and min pooling in two dimensions, on the CPU.

#ifndef ACCELERATE_KERNELS_SELECT_AND_SCATTER_ADD_SELECT_AND_SCATTER_ADD_H_
#define ACCELERATE_KERNELS_SELECT_AND_SCATTER_ADD_SELECT_AND_SCATTER_ADD_H_

#include <cstdint>

#include "xla_ffi/core/executor.h"

namespace xla_ffi_accelerate::select_and_scatter_add {

using namespace xla_ffi_kit;  // its types and threads

// One pooled dimension: the window at element o of the pooled array is over
// elements o * stride - padding and the window - 1 next ones of the operand.
struct PoolDimension {
  int64_t size = 1;     // of the operand, at most kMaxPoolSize
  int64_t pooled = 1;   // of the pooled array, at most kMaxPoolSize
  int64_t window = 1;   // at most kMaxPoolWindow
  int64_t stride = 1;   // at most kMaxPoolSize
  int64_t padding = 0;  // 0 to kMaxPoolWindow
};

// So that no offset overflows, and 32 bits hold the number of any element of a
// window.
inline constexpr int64_t kMaxPoolSize = int64_t{1} << 30;
inline constexpr int64_t kMaxPoolWindow = int64_t{1} << 15;

struct Pool {
  int64_t outer = 1;  // how many images there are
  int64_t inner = 1;  // channels, the last axis
  PoolDimension rows, columns;
  bool is_min = false;
};

// operand[outer, rows, columns, inner], source[outer, pooled rows, pooled
// columns, inner] -> result, like the operand.
//
// Selects one element of each window. The elements are compared in row-major
// order, and the one selected so far stays if it is >= the next one (<= with
// is_min). The first of equal elements therefore stays, and a NaN is replaced.
// Elements outside the operand are -infinity (infinity). The result starts as
// 0.0. Each element of the source is added to it at the place that its window
// selected, in row-major order of the source, unless that place is outside. T:
// float or double.
template <typename T>
void SelectAndScatterAdd(const Pool& pool, const T* operand, const T* source,
                         T* result, const Executor& executor);

}  // namespace xla_ffi_accelerate::select_and_scatter_add

#endif  // ACCELERATE_KERNELS_SELECT_AND_SCATTER_ADD_SELECT_AND_SCATTER_ADD_H_
