// The cumulative sum of a line of integers.

#ifndef ACCELERATE_KERNELS_CUMULATIVE_SUM_LINE_H_
#define ACCELERATE_KERNELS_CUMULATIVE_SUM_LINE_H_

#include <cstdint>

namespace xla_ffi_accelerate::cumulative {

// out[k] = before + in[0] + ... + in[k] for k < n; with `reverse`,
// before + in[n - 1] + ... + in[k]. Wraps; of U, an unsigned integer, since
// signed ones have the same sums. `out` may be `in`.
template <typename U>
void SumLine(const U* in, int64_t n, bool reverse, U before, U* out);

}  // namespace xla_ffi_accelerate::cumulative

#endif  // ACCELERATE_KERNELS_CUMULATIVE_SUM_LINE_H_
