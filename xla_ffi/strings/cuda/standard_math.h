// <cmath> and <cstring> for NVRTC, which has the functions, but not in std.

#ifndef XLA_FFI_STRINGS_CUDA_STANDARD_MATH_H_
#define XLA_FFI_STRINGS_CUDA_STANDARD_MATH_H_

#include "xla_ffi/strings/cuda/standard_types.h"

namespace std {

// A whole number is a double to a function of one real number.
#define KIT_OF_ONE(name)                                        \
  using ::name;                                                 \
  template <typename T, enable_if_t<is_integral_v<T>, int> = 0> \
  double name(T x) {                                            \
    return ::name(static_cast<double>(x));                      \
  }
KIT_OF_ONE(acos)
KIT_OF_ONE(acosh)
KIT_OF_ONE(asin)
KIT_OF_ONE(asinh)
KIT_OF_ONE(atan)
KIT_OF_ONE(atanh)
KIT_OF_ONE(cbrt)
KIT_OF_ONE(ceil)
KIT_OF_ONE(cos)
KIT_OF_ONE(cosh)
KIT_OF_ONE(erf)
KIT_OF_ONE(erfc)
KIT_OF_ONE(exp)
KIT_OF_ONE(exp2)
KIT_OF_ONE(expm1)
KIT_OF_ONE(fabs)
KIT_OF_ONE(floor)
KIT_OF_ONE(lgamma)
KIT_OF_ONE(log)
KIT_OF_ONE(log10)
KIT_OF_ONE(log1p)
KIT_OF_ONE(log2)
KIT_OF_ONE(logb)
KIT_OF_ONE(nearbyint)
KIT_OF_ONE(rint)
KIT_OF_ONE(round)
KIT_OF_ONE(sin)
KIT_OF_ONE(sinh)
KIT_OF_ONE(sqrt)
KIT_OF_ONE(tan)
KIT_OF_ONE(tanh)
KIT_OF_ONE(tgamma)
KIT_OF_ONE(trunc)
#undef KIT_OF_ONE

// Numbers of two types are doubles.
#define KIT_OF_TWO(name)                                                  \
  using ::name;                                                           \
  template <typename T, typename U,                                       \
            enable_if_t<is_arithmetic_v<T> && is_arithmetic_v<U> &&       \
                            !(is_same_v<T, U> && is_floating_point_v<T>), \
                        int> = 0>                                         \
  double name(T x, U y) {                                                 \
    return ::name(static_cast<double>(x), static_cast<double>(y));        \
  }
KIT_OF_TWO(atan2)
KIT_OF_TWO(copysign)
KIT_OF_TWO(fdim)
KIT_OF_TWO(fmax)
KIT_OF_TWO(fmin)
KIT_OF_TWO(fmod)
KIT_OF_TWO(hypot)
KIT_OF_TWO(nextafter)
KIT_OF_TWO(pow)
KIT_OF_TWO(remainder)
#undef KIT_OF_TWO

using ::abs;
using ::fma;
using ::frexp;
using ::ilogb;
using ::isfinite;
using ::isinf;
using ::isnan;
using ::ldexp;
using ::llrint;
using ::llround;
using ::lrint;
using ::lround;
using ::memcpy;
using ::memset;
using ::modf;
using ::scalbn;
using ::signbit;

}  // namespace std

#endif  // XLA_FFI_STRINGS_CUDA_STANDARD_MATH_H_
