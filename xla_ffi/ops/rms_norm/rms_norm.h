// RMS normalisation of rows, and its derivative, on the CPU.
//
//   y = x * scale,  scale = 1 / sqrt(mean(|x|^2) + eps),  mean over the row
//
// as in Zhang and Sennrich, "Root Mean Square Layer Normalization" (2019).
// The functions know nothing of XLA or threads: they work on `rows` rows of
// `n` >= 1 elements, one after the other in memory, with any alignment. They
// are defined for T = Float16, BFloat16, float, double, std::complex<float>
// and std::complex<double>.
//
// Products of 16-bit elements and of floats are added in double, those of
// doubles in compensated blocks: the sums neither overflow (double: up to
// 1e154) nor drift with n. Outputs are computed in A = AccumulationType<T>
// and rounded once. NaN and infinity behave as in the formula.

#ifndef XLA_FFI_OPS_RMS_NORM_RMS_NORM_H_
#define XLA_FFI_OPS_RMS_NORM_RMS_NORM_H_

#include <cstdint>

#include "xla_ffi/core/accumulation_type.h"

namespace xla_ffi_kit {

// y[r, i] = x[r, i] * scale[r]. If `scale` is not null, also stores scale[r].
// `y` may be `x`; otherwise outputs must not overlap inputs.
template <typename T>
void RmsNorm(const T* x, int64_t rows, int64_t n, double eps, T* y,
             AccumulationType<T>* scale);

// The cotangent of x, from the forward's `scale`, its input and the cotangent
// `ct` of y, in JAX's bilinear convention:
//
//   dx = scale * ct - conj(x) * scale^3 * mean(Re(x * ct))
//
// For real T the Jacobian is symmetric, so this is its product with a tangent
// too; for complex T that product is conj(bwd(scale, x, conj(tangent))).
// `dx` may be `x` or `ct`; otherwise outputs must not overlap inputs.
template <typename T>
void RmsNormBackward(const AccumulationType<T>* scale, const T* x, const T* ct,
                     int64_t rows, int64_t n, T* dx);

}  // namespace xla_ffi_kit

#endif  // XLA_FFI_OPS_RMS_NORM_RMS_NORM_H_
