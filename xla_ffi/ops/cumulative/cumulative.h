// Cumulative sums, products, maxima and minima along an axis, on the CPU.

#ifndef XLA_FFI_OPS_CUMULATIVE_CUMULATIVE_H_
#define XLA_FFI_OPS_CUMULATIVE_CUMULATIVE_H_

#include <cstdint>

#include "xla_ffi/ops/sort/pack.h"
#include "xla_ffi/ops/sort/workers.h"

namespace xla_ffi_kit {

enum class CumulativeOp { kSum, kProduct, kMax, kMin };

struct CumulativeProblem {
  int64_t outer;  // the arrays are [outer, length, inner]
  int64_t length;
  int64_t inner;
  KeyKind kind;
  int64_t width;  // bytes an element: 1, 2, 4 or 8
  CumulativeOp op;
  bool reverse;  // from the end
  const void* in;
  void* out;
};

// out[k] = in[0] op ... op in[k] for each line; integers wrap. Floats: sums and
// products alone and not reversed, in the order of XLA's CPU backend
// (float_lines.h). `out` may be `in`.
void Cumulative(const CumulativeProblem& problem, const Workers& workers);

}  // namespace xla_ffi_kit

#endif  // XLA_FFI_OPS_CUMULATIVE_CUMULATIVE_H_
