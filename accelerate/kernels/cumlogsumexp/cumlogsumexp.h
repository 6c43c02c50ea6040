// The cumulative log-sum-exp of rows, on the CPU.

#ifndef ACCELERATE_KERNELS_CUMLOGSUMEXP_CUMLOGSUMEXP_H_
#define ACCELERATE_KERNELS_CUMLOGSUMEXP_CUMLOGSUMEXP_H_

#include <cstdint>

#include "xla_ffi/core/call.h"

namespace xla_ffi_accelerate::cumlogsumexp {

using namespace xla_ffi_kit;  // its types and threads

// y[k] = log(exp(x[0]) + ... + exp(x[k])) for each row, without overflow; with
// `reverse`, of x[k] to x[n - 1]. The sums are of double precision, each
// relative to the largest element so far; of an exponential and a logarithm
// together at most 5 units in the last place are wrong. NaN from a NaN on; inf
// from an inf on.
inline constexpr Operand x{"x", TypeList<float, double>(), "(..., n)"};
inline constexpr Attribute<bool> reverse{"reverse"};
inline constexpr Result y{"y", x};
inline constexpr char kName[] = "xla_ffi_accelerate.cumlogsumexp";
using CumlogsumexpCall = Call<kName, x, reverse, y>;

// T is float or double.
template <typename T>
struct CumlogsumexpProblem {
  int64_t rows = 1;
  int64_t length = 0;
  bool reverse = false;
  const T* in = nullptr;
  T* out = nullptr;  // apart from `in`
};

template <typename T>
void Cumlogsumexp(const CumlogsumexpProblem<T>& problem,
                  const Executor& executor);

}  // namespace xla_ffi_accelerate::cumlogsumexp

XLA_FFI_DECLARE_HANDLER_SYMBOL(XlaFfiAccelerateCumlogsumexpCpu);

#endif  // ACCELERATE_KERNELS_CUMLOGSUMEXP_CUMLOGSUMEXP_H_
