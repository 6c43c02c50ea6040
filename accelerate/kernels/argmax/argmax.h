// The index of the largest or smallest element along an axis, on the CPU.

#ifndef ACCELERATE_KERNELS_ARGMAX_ARGMAX_H_
#define ACCELERATE_KERNELS_ARGMAX_ARGMAX_H_

#include <cstdint>

#include "xla_ffi/core/executor.h"

namespace xla_ffi_accelerate::argmax {

using namespace xla_ffi_kit;  // its types and threads

struct ArgmaxProblem {
  // The operand is [outer, length, inner], the result [outer, inner].
  int64_t outer = 1;
  int64_t length = 1;  // 1 to 2^31
  int64_t inner = 1;
  bool is_min = false;
  bool subnormals_are_zero = false;  // to the comparisons of bf16
  const void* in = nullptr;
  void* out = nullptr;
  int64_t index_width = 4;  // bytes of an index: 4 or 8
};

// Writes for each line the index of its first NaN, or else of the first of its
// largest elements (with is_min, of its smallest). -0.0 equals 0.0; f32 and f64
// are compared as the thread compares them, subnormals too. The elements are of
// type T, one of KeyTypes.
template <typename T>
void Argmax(const ArgmaxProblem& problem, const Executor& executor);

}  // namespace xla_ffi_accelerate::argmax

#endif  // ACCELERATE_KERNELS_ARGMAX_ARGMAX_H_
