// RMS normalization of rows and its backward: the formulas, the arguments on
// any platform, and the functions on the CPU, which know nothing of XLA or
// threads.
//
// Forward:
//
//   h = x + residual                        (rounded to T; h = x without one)
//   scale = 1 / sqrt(mean(h^2) + eps)       (mean over the row)
//   y = h * scale * weight
//
// as in Zhang and Sennrich, "Root Mean Square Layer Normalization" (2019).
//
// Backward, the cotangents of the operands from those of the results:
//
//   g  = weight * ct
//   dx = scale * g - x * scale^3 * mean(x * g) + ct_sum
//   dweight = sum over rows of (x * scale) * ct
//
// where `x` is what was normalized (the forward's h), `ct` the cotangent of y,
// and `ct_sum` that of h where h is a result too. The Jacobian of the
// normalization is symmetric, so that dx is also its product with a tangent
// `ct`.
//
// Rows have `n` >= 1 elements and follow each other in memory, with any
// alignment. T is Float16, BFloat16, float or double. Everything is computed in
// A = AccumulationType<T>, sums over rows of any length in double, and y, dx
// and dweight are rounded to T once. NaN and infinity behave as in the
// formulas. On the CPU sums do not overflow or underflow either where the
// squares of floats would (of doubles, beyond 1e154, they do).

#ifndef XLA_FFI_OPS_RMS_NORM_RMS_NORM_H_
#define XLA_FFI_OPS_RMS_NORM_RMS_NORM_H_

#include <cmath>
#include <cstdint>

#include "xla_ffi/core/dtypes.h"

// INSTANTIATE(T) for each T.
#define XLA_FFI_KIT_RMS_NORM_TYPES(INSTANTIATE) \
  INSTANTIATE(Float16);                         \
  INSTANTIATE(BFloat16);                        \
  INSTANTIATE(float);                           \
  INSTANTIATE(double)

namespace xla_ffi_kit {

// Results may be the very arrays x or residual (in place) and must not overlap
// operands otherwise.
template <typename T>
struct RmsNormForwardArgs {
  const T* x = nullptr;         // [rows, n]
  const T* weight = nullptr;    // [rows / rows_per_weight, n], or null: ones
  const T* residual = nullptr;  // [rows, n], or null: none
  T* y = nullptr;               // [rows, n]
  T* sum = nullptr;             // [rows, n]: h, only with a residual
  AccumulationType<T>* scale = nullptr;  // [rows], or null: not wanted
  int64_t rows = 0;
  int64_t n = 1;
  int64_t rows_per_weight = 1;  // row r uses weight r / rows_per_weight
  double eps = 0;
};

// dx may be the very array x, ct or ct_sum (in place) and must not overlap
// operands otherwise.
template <typename T>
struct RmsNormBackwardArgs {
  const T* x = nullptr;                        // [rows, n]
  const T* ct = nullptr;                       // [rows, n]
  const AccumulationType<T>* scale = nullptr;  // [rows]; null: from x and eps
  const T* weight = nullptr;  // [rows / rows_per_weight, n], or null: ones
  const T* ct_sum = nullptr;  // [rows, n], or null: zeros
  T* dx = nullptr;            // [rows, n]
  T* dweight = nullptr;       // like weight, or null: not wanted
  int64_t rows = 0;
  int64_t n = 1;
  int64_t weights = 1;
  int64_t rows_per_weight = 1;  // rows / weights; 0 for no weights
  double eps = 0;               // only without `scale`
};

// Normalizes the rows [begin, end).
template <typename T>
void RmsNorm(const RmsNormForwardArgs<T>& args, int64_t begin, int64_t end);

// The same in parts, for one row that several threads share. First comes the
// sum of h^2 over the elements [begin, end) of a row, which also stores h
// there ...
template <typename T>
double RmsNormPower(const RmsNormForwardArgs<T>& args, int64_t row,
                    int64_t begin, int64_t end);

// ... and, with the scale from all parts, the elements [begin, end) of y.
template <typename T>
void RmsNormApply(const RmsNormForwardArgs<T>& args, int64_t row, int64_t begin,
                  int64_t end, AccumulationType<T> scale);

// The scale of a row of n elements whose sum of h^2 is `power`.
template <typename A>
A RmsNormScale(double power, int64_t n, double eps) {
  return static_cast<A>(1 / std::sqrt(power / static_cast<double>(n) + eps));
}

// dx for the rows [begin, end).
template <typename T>
void RmsNormBackward(const RmsNormBackwardArgs<T>& args, int64_t begin,
                     int64_t end);

// The same in parts, for one row that several threads share. First come the
// sums over the elements [begin, end) of a row ...
struct RmsNormBackwardSums {
  double dot = 0;    // of x * g
  double power = 0;  // of x^2; 0 if args.scale is given

  RmsNormBackwardSums& operator+=(const RmsNormBackwardSums& other) {
    dot += other.dot;
    power += other.power;
    return *this;
  }
};
template <typename T>
RmsNormBackwardSums RmsNormBackwardReduce(const RmsNormBackwardArgs<T>& args,
                                          int64_t row, int64_t begin,
                                          int64_t end);

// ... and, with the sums of all parts, the elements [begin, end) of dx.
template <typename T>
void RmsNormBackwardApply(const RmsNormBackwardArgs<T>& args, int64_t row,
                          int64_t begin, int64_t end,
                          const RmsNormBackwardSums& sums);

// Adds, for the rows [begin, end), the elements [first, last) of dweight to
// `dweight`, which begins with the element `first`. Needs args.scale. Call it
// before dx overwrites x or ct.
template <typename T>
void RmsNormWeightBackward(const RmsNormBackwardArgs<T>& args, int64_t begin,
                           int64_t end, int64_t first, int64_t last,
                           double* dweight);

}  // namespace xla_ffi_kit

#endif  // XLA_FFI_OPS_RMS_NORM_RMS_NORM_H_
