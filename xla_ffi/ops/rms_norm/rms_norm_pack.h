// The numbers of a row on a CUDA device; plain C++ tests run them too.

#ifndef XLA_FFI_OPS_RMS_NORM_RMS_NORM_PACK_H_
#define XLA_FFI_OPS_RMS_NORM_RMS_NORM_PACK_H_

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "xla_ffi/core/accumulation_type.h"
#include "xla_ffi/core/cuda/pack.h"
#include "xla_ffi/core/host_device.h"

namespace xla_ffi_kit::rms_norm_internal {

// 1 / sqrt(value), rounded to A once, or nearly so.
//
// A division and a square root of doubles are 100 instructions, which short
// rows would feel. For a float result one Newton step from the device's
// approximation does: it squares an error of 2^-22.
template <typename A>
XLA_FFI_KIT_HOST_DEVICE inline A ReciprocalSqrt(double value) {
#ifdef __CUDA_ARCH__
  const bool is_float_range = value > 1e-30 && value < 1e30;
  if (std::is_same_v<A, float> && is_float_range) {
    const double guess = rsqrtf(static_cast<float>(value));
    return static_cast<A>(guess * (1.5 - 0.5 * value * guess * guess));
  }
#endif
  return static_cast<A>(1 / sqrt(value));
}

// The scale of a row with `power` as its sum of |x|^2.
template <typename A>
XLA_FFI_KIT_HOST_DEVICE inline A RowScale(double power, double inverse_n,
                                          double eps) {
  return ReciprocalSqrt<A>(power * inverse_n + eps);
}

// The sum of the squares of a pack's components, in A: a thread adds few of
// them before it goes on in double.
template <typename R, int W>
XLA_FFI_KIT_HOST_DEVICE inline AccumulationType<R> PackPower(
    const Pack<R, W>& x) {
  using A = AccumulationType<R>;
  A sum = 0;
  for (int k = 0; k < W; ++k) {
    const A value = static_cast<A>(x.values[k]);
    sum += value * value;
  }
  return sum;
}

// x * scale.
template <typename R, int W>
XLA_FFI_KIT_HOST_DEVICE inline Pack<R, W> ScalePack(const Pack<R, W>& x,
                                                    AccumulationType<R> scale) {
  using A = AccumulationType<R>;
  Pack<R, W> y;
  for (int k = 0; k < W; ++k) {
    y.values[k] = static_cast<R>(static_cast<A>(x.values[k]) * scale);
  }
  return y;
}

// Component k of conj(x), for the pack that begins with component `first` of
// its row; odd_sign is -1 if components are real and imaginary parts, else 1.
template <typename A, typename R, int W>
XLA_FFI_KIT_HOST_DEVICE inline A Conjugated(const Pack<R, W>& x, int k,
                                            int64_t first, A odd_sign) {
  const A value = static_cast<A>(x.values[k]);
  return ((first + k) & 1) != 0 ? value * odd_sign : value;
}

// The sum of Re(x * ct) over a pack.
template <typename R, int W>
XLA_FFI_KIT_HOST_DEVICE inline AccumulationType<R> PackDot(
    const Pack<R, W>& x, const Pack<R, W>& ct, int64_t first,
    AccumulationType<R> odd_sign) {
  using A = AccumulationType<R>;
  A sum = 0;
  for (int k = 0; k < W; ++k) {
    sum += Conjugated(x, k, first, odd_sign) * static_cast<A>(ct.values[k]);
  }
  return sum;
}

// scale * (ct - conj(x) * scale * mean), where mean is that of Re(x * ct) times
// scale. In this form every factor is of the order of its row; the cube of
// scale may overflow.
template <typename R, int W>
XLA_FFI_KIT_HOST_DEVICE inline Pack<R, W> GradientPack(
    const Pack<R, W>& x, const Pack<R, W>& ct, int64_t first,
    AccumulationType<R> odd_sign, AccumulationType<R> scale,
    AccumulationType<R> mean) {
  using A = AccumulationType<R>;
  Pack<R, W> dx;
  for (int k = 0; k < W; ++k) {
    const A y = Conjugated(x, k, first, odd_sign) * scale;
    dx.values[k] =
        static_cast<R>(scale * (static_cast<A>(ct.values[k]) - y * mean));
  }
  return dx;
}

}  // namespace xla_ffi_kit::rms_norm_internal

#endif  // XLA_FFI_OPS_RMS_NORM_RMS_NORM_PACK_H_
