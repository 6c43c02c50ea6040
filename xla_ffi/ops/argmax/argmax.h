// The index of the largest or smallest element along an axis, on the CPU.

#ifndef XLA_FFI_OPS_ARGMAX_ARGMAX_H_
#define XLA_FFI_OPS_ARGMAX_ARGMAX_H_

#include <cstdint>

#include "xla_ffi/ops/sort/pack.h"
#include "xla_ffi/ops/sort/workers.h"

namespace xla_ffi_kit {

struct ArgmaxProblem {
  // The array is [outer, length, inner], the result [outer, inner].
  int64_t outer;
  int64_t length;  // 1 to 2^31
  int64_t inner;
  KeyKind kind;
  int64_t width;  // bytes an element: 1, 2, 4 or 8
  bool is_min;
  bool subnormals_are_zero;  // to the comparisons of bf16
  const void* in;
  int64_t index_width;  // bytes of an index: 4 or 8
  void* out;
};

// Writes for each line the index of its first NaN, or else of the first of its
// largest elements (with is_min, of its smallest). -0.0 equals 0.0; f32 and f64
// are compared as the thread compares them, subnormals too.
void Argmax(const ArgmaxProblem& problem, const Workers& workers);

}  // namespace xla_ffi_kit

#endif  // XLA_FFI_OPS_ARGMAX_ARGMAX_H_
