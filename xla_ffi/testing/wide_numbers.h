// Any element type as long double, for scalar references of kernels.

#ifndef XLA_FFI_TESTING_WIDE_NUMBERS_H_
#define XLA_FFI_TESTING_WIDE_NUMBERS_H_

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <type_traits>
#include <vector>

#include "xla_ffi/core/dtypes.h"
#include "xla_ffi/core/half.h"

namespace xla_ffi_kit::testing {

using Wide = long double;
using WideComplex = std::complex<Wide>;

// The value of an element, exactly.
template <typename T>
WideComplex Widen(T value) {
  if constexpr (kComponents<T> == 2) {
    return WideComplex(value.real(), value.imag());
  } else {
    return static_cast<Wide>(static_cast<AccumulationType<T>>(value));
  }
}

// The element for a value, rounded; of its real part if T is real.
template <typename T>
T Narrow(std::complex<double> value) {
  using A = AccumulationType<T>;
  if constexpr (kComponents<T> == 2) {
    return T(static_cast<A>(value.real()), static_cast<A>(value.imag()));
  } else {
    return T(static_cast<A>(value.real()));
  }
}

// |re| + |im|: within a factor of sqrt(2) of the absolute value, and far
// faster to compute.
inline Wide Magnitude(WideComplex value) {
  return std::abs(value.real()) + std::abs(value.imag());
}

// Half the distance of neighbouring values of T, relative to them.
template <typename T>
Wide UnitRoundoff() {
  if constexpr (std::is_same_v<T, Float16>) {
    return 0x1p-11L;
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    return 0x1p-8L;
  } else {
    return std::numeric_limits<AccumulationType<T>>::epsilon() / 2;
  }
}

template <typename T>
double Largest(const std::vector<T>& values) {
  double largest = 0;
  for (const T& value : values) {
    largest = std::max(largest, static_cast<double>(std::abs(Widen(value))));
  }
  return largest;
}

// Distance in units of T's precision, relative to `magnitude`. Infinite if an
// element is NaN.
template <typename T>
double Distance(const std::vector<T>& got, const std::vector<T>& expected,
                double magnitude) {
  double distance = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    const auto of_element =
        static_cast<double>(std::abs(Widen(got[i]) - Widen(expected[i])));
    if (std::isnan(of_element)) return HUGE_VAL;
    distance = std::max(distance, of_element);
  }
  if (distance == 0) return 0;  // of zeros, too, whose magnitude is 0
  return distance / magnitude / static_cast<double>(UnitRoundoff<T>());
}

// Normally distributed numbers, the same for the same seed.
template <typename T>
std::vector<T> RandomNormal(int64_t size, uint32_t seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<double> normal;
  std::vector<T> values(static_cast<size_t>(size));
  for (T& value : values) value = Narrow<T>({normal(engine), normal(engine)});
  return values;
}

}  // namespace xla_ffi_kit::testing

#endif  // XLA_FFI_TESTING_WIDE_NUMBERS_H_
