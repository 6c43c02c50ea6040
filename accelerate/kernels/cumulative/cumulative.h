// Cumulative sums, products, maxima and minima along an axis, on the CPU.

#ifndef ACCELERATE_KERNELS_CUMULATIVE_CUMULATIVE_H_
#define ACCELERATE_KERNELS_CUMULATIVE_CUMULATIVE_H_

#include <cstdint>

#include "xla_ffi/core/executor.h"

namespace xla_ffi_accelerate::cumulative {

using namespace xla_ffi_kit;  // its types and threads

enum class CumulativeOp { kSum, kProduct, kMax, kMin };

struct CumulativeProblem {
  int64_t outer = 1;  // the arrays are [outer, length, inner]
  int64_t length = 1;
  int64_t inner = 1;
  CumulativeOp op = CumulativeOp::kSum;
  bool reverse = false;  // from the end
  bool subnormals_are_zero = false;
  const void* in = nullptr;
  void* out = nullptr;
};

// out[k] = in[0] op ... op in[k] for each line; integers wrap. Floats: sums and
// products not reversed, in the order of XLA's CPU backend (float_lines.h);
// maxima and minima as in cumulative_ops.h, a NaN as jnp.nan.
// `out` may be `in`. The elements are of type T, one of RealTypes.
template <typename T>
void Cumulative(const CumulativeProblem& problem, const Executor& executor);

}  // namespace xla_ffi_accelerate::cumulative

#endif  // ACCELERATE_KERNELS_CUMULATIVE_CUMULATIVE_H_
