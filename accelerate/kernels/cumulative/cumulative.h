// Cumulative sums along an axis, on the CPU.

#ifndef ACCELERATE_KERNELS_CUMULATIVE_CUMULATIVE_H_
#define ACCELERATE_KERNELS_CUMULATIVE_CUMULATIVE_H_

#include <cstdint>

#include "xla_ffi/core/call.h"

namespace xla_ffi_accelerate::cumulative {

using namespace xla_ffi_kit;  // its types and threads

// y[k] = x[0] + ... + x[k] along `axis`; with `reverse` = 1,
// x[k] + ... + x[n - 1]. Integers wrap. Floats, which are not reversed, are
// added in the order of XLA's CPU backend (float_lines.h). y may be x.
inline constexpr Operand x{"x", RealTypes(), "(...)"};
inline constexpr Axis axis{"axis", x};
inline constexpr Attribute<int64_t> reverse{"reverse"};
inline constexpr Result y{"y", x};
inline constexpr char kName[] = "xla_ffi_accelerate.cumulative";
using CumulativeCall = Call<kName, x, axis, reverse, y>;

struct CumulativeProblem {
  int64_t outer = 1;  // the arrays are [outer, length, inner]
  int64_t length = 1;
  int64_t inner = 1;
  bool reverse = false;
  const void* in = nullptr;
  void* out = nullptr;
};

// The same, of elements of type T, one of RealTypes.
template <typename T>
void Cumulative(const CumulativeProblem& problem, const Executor& executor);

}  // namespace xla_ffi_accelerate::cumulative

XLA_FFI_DECLARE_HANDLER_SYMBOL(XlaFfiAccelerateCumulativeCpu);

#endif  // ACCELERATE_KERNELS_CUMULATIVE_CUMULATIVE_H_
