// RMS normalisation of rows, forward, on the CPU.
//
//   h = x + residual                        (rounded to T; h = x without one)
//   scale = 1 / sqrt(mean(|h|^2) + eps)     (mean over the row)
//   y = h * scale * weight
//   y = max(h * scale * weight + h, 0)      (a block: weight, real T)
//
// as in Zhang and Sennrich, "Root Mean Square Layer Normalization" (2019).
// The functions know nothing of XLA or threads. Rows have `n` >= 1 elements
// and follow each other in memory, with any alignment. T is Float16, BFloat16,
// float, double, std::complex<float> or std::complex<double>.
//
// Accuracy: sums do not drift with n and do not overflow or underflow where
// the squares of floats would (of doubles, beyond 1e154, they do); the rest is
// computed in A = AccumulationType<T>, and y is rounded to T once. NaN and
// infinity behave as in the formula.

#ifndef XLA_FFI_OPS_RMS_NORM_RMS_NORM_H_
#define XLA_FFI_OPS_RMS_NORM_RMS_NORM_H_

#include <cmath>
#include <cstdint>

#include "xla_ffi/core/accumulation_type.h"

namespace xla_ffi_kit {

// Operands and results. Outputs may be the very arrays x or residual (in
// place) and must not overlap inputs otherwise.
template <typename T>
struct RmsNormForward {
  const T* x = nullptr;         // [rows, n]
  const T* residual = nullptr;  // [rows, n], or null: none
  const T* weight = nullptr;    // [rows / rows_per_weight, n], or null: ones
  T* y = nullptr;               // [rows, n]
  T* sum = nullptr;             // [rows, n]: h, exactly if there is a residual
  AccumulationType<T>* scale = nullptr;  // [rows], or null: not wanted
  int64_t n = 1;
  int64_t rows_per_weight = 1;  // row r uses weight r / rows_per_weight
  double eps = 0;
  bool is_block = false;  // see above
};

// Normalises the rows [begin, end).
template <typename T>
void RmsNorm(const RmsNormForward<T>& args, int64_t begin, int64_t end);

// The same in parts, for one row that several threads share: first the sum of
// |h|^2 over the elements [begin, end) of a row, which also stores h there ...
template <typename T>
double RmsNormPower(const RmsNormForward<T>& args, int64_t row, int64_t begin,
                    int64_t end);

// ... and, with the scale from all parts, the elements [begin, end) of y.
template <typename T>
void RmsNormApply(const RmsNormForward<T>& args, int64_t row, int64_t begin,
                  int64_t end, AccumulationType<T> scale);

// The scale of a row of n elements whose sum of |h|^2 is `power`.
template <typename A>
A RmsNormScale(double power, int64_t n, double eps) {
  return static_cast<A>(1 / std::sqrt(power / static_cast<double>(n) + eps));
}

}  // namespace xla_ffi_kit

#endif  // XLA_FFI_OPS_RMS_NORM_RMS_NORM_H_
