// What the kernels are measured against: the loops that the JAX FFI tutorial
// has, for every type, compiled with -O3. Nothing here is to be fast.

#ifndef BENCHMARKS_BASELINE_LOOPS_H_
#define BENCHMARKS_BASELINE_LOOPS_H_

#include <cmath>
#include <complex>
#include <cstdint>
#include <type_traits>

#include "xla_ffi/core/dtypes.h"
#include "xla_ffi/core/half.h"

namespace xla_ffi_kit::baseline {

// What T is computed in: float for 16-bit floats, else T.
template <typename T>
using Wide = std::conditional_t<
    std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>, float, T>;

template <typename T>
Wide<T> Widen(T value) {
  return static_cast<Wide<T>>(value);
}

// The real part of a * conj(b).
template <typename T>
T Dot(T a, T b) {
  return a * b;
}
template <typename T>
T Dot(std::complex<T> a, std::complex<T> b) {
  return a.real() * b.real() + a.imag() * b.imag();
}

template <typename T>
T Conj(T a) {
  return a;
}
template <typename T>
std::complex<T> Conj(std::complex<T> a) {
  return std::conj(a);
}

// y = x * scale for one row; returns the scale.
template <typename T>
AccumulationType<T> RmsNorm(double eps, int64_t n, const T* x, T* y) {
  using A = AccumulationType<T>;
  A sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += Dot(Widen(x[i]), Widen(x[i]));
  const A scale =
      A(1) / std::sqrt(sum / static_cast<A>(n) + static_cast<A>(eps));
  for (int64_t i = 0; i < n; ++i) y[i] = static_cast<T>(Widen(x[i]) * scale);
  return scale;
}

// dx for one row, from the cotangent of y and the scale. (JAX's cotangents of
// complex numbers are conjugated.)
template <typename T>
void RmsNormBackward(int64_t n, AccumulationType<T> scale, const T* x,
                     const T* ct, T* dx) {
  using A = AccumulationType<T>;
  A sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += Dot(Conj(Widen(x[i])), Widen(ct[i]));
  const A factor = sum * scale * scale * scale / static_cast<A>(n);
  for (int64_t i = 0; i < n; ++i) {
    dx[i] = static_cast<T>(Widen(ct[i]) * scale - Conj(Widen(x[i])) * factor);
  }
}

// a[i] = b[i % n] + c[i], as in XLA's custom call document.
template <typename T>
void ModularAdd(const T* b, int64_t n, const T* c, int64_t m, T* a) {
  for (int64_t i = 0; i < m; ++i) {
    a[i] = static_cast<T>(Widen(b[i % n]) + Widen(c[i]));
  }
}

template <typename T>
void Relu(const T* x, int64_t n, T* y) {
  for (int64_t i = 0; i < n; ++i) {
    const auto value = Widen(x[i]);
    y[i] = static_cast<T>(value < 0 ? Wide<T>(0) : value);
  }
}

}  // namespace xla_ffi_kit::baseline

#endif  // BENCHMARKS_BASELINE_LOOPS_H_
