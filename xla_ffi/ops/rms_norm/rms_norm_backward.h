// RMS normalisation of rows, backward, on the CPU: the cotangents of what
// rms_norm.h computes, from those of its results.
//
//   g  = weight * ct
//   dx = scale * g - conj(x) * scale^3 * mean(Re(x * g)) + ct_sum
//   dweight = sum over rows of (x * scale) * ct
//
// in JAX's bilinear convention for complex numbers; `x` is what was normalised
// (h in rms_norm.h), `ct` the cotangent of y, and `ct_sum` that of h where h is
// a result too. For real T the Jacobian of the normalisation is symmetric, so
// that dx is also its product with a tangent `ct`; for complex T that product
// is conj(dx(x, conj(tangent))). Rows, types and accuracy: see rms_norm.h.

#ifndef XLA_FFI_OPS_RMS_NORM_RMS_NORM_BACKWARD_H_
#define XLA_FFI_OPS_RMS_NORM_RMS_NORM_BACKWARD_H_

#include <cstdint>

#include "xla_ffi/core/accumulation_type.h"

namespace xla_ffi_kit {

// Operands and results. dx may be the very array x, ct or ct_sum (in place)
// and must not overlap inputs otherwise.
template <typename T>
struct RmsNormBackward {
  const AccumulationType<T>* scale = nullptr;  // [rows]; null: from x and eps
  const T* x = nullptr;                        // [rows, n]
  const T* weight = nullptr;  // [rows / rows_per_weight, n], or null: ones
  const T* ct = nullptr;      // [rows, n]
  const T* ct_sum = nullptr;  // [rows, n], or null: zeros
  T* dx = nullptr;            // [rows, n]
  int64_t n = 1;
  int64_t rows_per_weight = 1;
  double eps = 0;  // only without `scale`
};

// dx for the rows [begin, end).
template <typename T>
void RmsNormGradient(const RmsNormBackward<T>& args, int64_t begin,
                     int64_t end);

// The same in parts, for one row that several threads share: first the sums
// over the elements [begin, end) of a row ...
struct RmsNormSums {
  double dot;    // of Re(x * g)
  double power;  // of |x|^2; 0 if args.scale is given
};
template <typename T>
RmsNormSums RmsNormGradientSums(const RmsNormBackward<T>& args, int64_t row,
                                int64_t begin, int64_t end);

// ... and, with the sums of all parts, the elements [begin, end) of dx.
template <typename T>
void RmsNormGradientApply(const RmsNormBackward<T>& args, int64_t row,
                          int64_t begin, int64_t end, const RmsNormSums& sums);

// Adds, for the rows [begin, end), the elements [first, last) of dweight to
// `dweight`, which begins with the element `first`; a complex element is two
// doubles. Needs args.scale. Call it before dx overwrites x or ct.
template <typename T>
void RmsNormWeightGradient(const RmsNormBackward<T>& args, int64_t begin,
                           int64_t end, int64_t first, int64_t last,
                           double* dweight);

}  // namespace xla_ffi_kit

#endif  // XLA_FFI_OPS_RMS_NORM_RMS_NORM_BACKWARD_H_
