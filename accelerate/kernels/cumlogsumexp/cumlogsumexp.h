// The cumulative log-sum-exp of rows, on the CPU.

#ifndef ACCELERATE_KERNELS_CUMLOGSUMEXP_CUMLOGSUMEXP_H_
#define ACCELERATE_KERNELS_CUMLOGSUMEXP_CUMLOGSUMEXP_H_

#include <cstdint>

#include "xla_ffi/core/executor.h"

namespace xla_ffi_accelerate::cumlogsumexp {

using namespace xla_ffi_kit;  // its types and threads

// T is float or double.
template <typename T>
struct CumlogsumexpProblem {
  int64_t rows = 1;
  int64_t length = 0;
  bool reverse = false;  // from the end
  const T* in = nullptr;
  T* out = nullptr;  // apart from `in`
};

// out[k] = log(exp(in[0]) + ... + exp(in[k])) for each row, without overflow.
// The sums are of double precision, each relative to the largest element so
// far; of an exponential and a logarithm together at most 5 units in the last
// place are wrong. NaN from a NaN on; inf from an inf on.
template <typename T>
void Cumlogsumexp(const CumlogsumexpProblem<T>& problem,
                  const Executor& executor);

}  // namespace xla_ffi_accelerate::cumlogsumexp

#endif  // ACCELERATE_KERNELS_CUMLOGSUMEXP_CUMLOGSUMEXP_H_
