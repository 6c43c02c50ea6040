#include "xla_ffi/ops/rms_norm/rms_norm.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>

#include "xla_ffi/core/accumulation_type.h"
#include "xla_ffi/core/half.h"

namespace xla_ffi_kit {
namespace {

// A complex row is a real row of twice as many components: |x|^2 is the sum of
// their squares, scale is real, and Re(x * ct) is the dot product of conj(x)
// and ct. So one set of row functions serves all types; `kConj` says that
// every second component of x counts with the opposite sign.
template <typename T>
struct Components {
  using type = T;
  static constexpr int64_t kPerElement = 1;
};
template <typename T>
struct Components<std::complex<T>> {
  using type = T;
  static constexpr int64_t kPerElement = 2;
};

// Lanes make the sum's order independent of the compiler, and let it use
// vectors. A block ends before rounding errors of its doubles can add up.
constexpr int64_t kLanes = 16;
constexpr int64_t kBlock = 1024;

// Neumaier's sum: the rounding error of every addition is kept and added at
// the end. An infinite total makes the correction NaN, so it is left out.
class CompensatedSum {
 public:
  void Add(double value) {
    const double next = total_ + value;
    correction_ += std::abs(total_) >= std::abs(value)
                       ? (total_ - next) + value
                       : (value - next) + total_;
    total_ = next;
  }
  double Result() const {
    return std::isfinite(total_) ? total_ + correction_ : total_;
  }

 private:
  double total_ = 0;
  double correction_ = 0;
};

// The sum of term(i), i < count.
template <typename Term>
double Sum(int64_t count, const Term& term) {
  CompensatedSum sum;
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t end = std::min(begin + kBlock, count);
    double lanes[kLanes] = {};
    int64_t i = begin;
    for (; i + kLanes <= end; i += kLanes) {
      for (int64_t lane = 0; lane < kLanes; ++lane) {
        lanes[lane] += term(i + lane);
      }
    }
    for (int64_t lane = 0; i < end; ++i, ++lane) lanes[lane] += term(i);
    for (int64_t half = kLanes / 2; half > 0; half /= 2) {
      for (int64_t lane = 0; lane < half; ++lane) {
        lanes[lane] += lanes[lane + half];
      }
    }
    sum.Add(lanes[0]);
  }
  return sum.Result();
}

template <typename R>
double SumOfSquares(const R* x, int64_t count) {
  using A = AccumulationType<R>;
  return Sum(count, [x](int64_t i) {
    const double value = static_cast<A>(x[i]);
    return value * value;
  });
}

// Component i of conj(x), or of x.
template <bool kConj, typename A>
A MaybeConj(A component, int64_t i) {
  return kConj && (i & 1) != 0 ? -component : component;
}

template <bool kConj, typename R>
double Dot(const R* x, const R* ct, int64_t count) {
  using A = AccumulationType<R>;
  return Sum(count, [x, ct](int64_t i) {
    const A value = MaybeConj<kConj>(static_cast<A>(x[i]), i);
    return static_cast<double>(value) * static_cast<A>(ct[i]);
  });
}

template <typename R>
void ScaleRow(const R* x, int64_t count, AccumulationType<R> scale, R* y) {
  using A = AccumulationType<R>;
  for (int64_t i = 0; i < count; ++i) {
    y[i] = static_cast<R>(static_cast<A>(x[i]) * scale);
  }
}

// dx = scale * (ct - conj(x) * scale * mean), mean = mean(Re(y * ct)). In this
// form every factor is of the order of its row, where scale^3 may overflow.
template <bool kConj, typename R>
void BackwardRow(const R* x, const R* ct, int64_t count,
                 AccumulationType<R> scale, AccumulationType<R> mean, R* dx) {
  using A = AccumulationType<R>;
  for (int64_t i = 0; i < count; ++i) {
    const A y = MaybeConj<kConj>(static_cast<A>(x[i]), i) * scale;
    dx[i] = static_cast<R>(scale * (static_cast<A>(ct[i]) - y * mean));
  }
}

}  // namespace

template <typename T>
void RmsNorm(const T* x, int64_t rows, int64_t n, double eps, T* y,
             AccumulationType<T>* scale) {
  using R = typename Components<T>::type;
  const int64_t count = n * Components<T>::kPerElement;
  const auto* in = reinterpret_cast<const R*>(x);
  auto* out = reinterpret_cast<R*>(y);
  for (int64_t r = 0; r < rows; ++r) {
    const double mean =
        SumOfSquares(in + r * count, count) / static_cast<double>(n);
    const auto row_scale =
        static_cast<AccumulationType<T>>(1 / std::sqrt(mean + eps));
    ScaleRow(in + r * count, count, row_scale, out + r * count);
    if (scale != nullptr) scale[r] = row_scale;
  }
}

template <typename T>
void RmsNormBackward(const AccumulationType<T>* scale, const T* x, const T* ct,
                     int64_t rows, int64_t n, T* dx) {
  using A = AccumulationType<T>;
  using R = typename Components<T>::type;
  constexpr bool kConj = Components<T>::kPerElement == 2;
  const int64_t count = n * Components<T>::kPerElement;
  for (int64_t r = 0; r < rows; ++r) {
    const auto* x_row = reinterpret_cast<const R*>(x) + r * count;
    const auto* ct_row = reinterpret_cast<const R*>(ct) + r * count;
    const double dot = Dot<kConj>(x_row, ct_row, count);
    const auto mean = static_cast<A>(scale[r] * dot / static_cast<double>(n));
    BackwardRow<kConj>(x_row, ct_row, count, scale[r], mean,
                       reinterpret_cast<R*>(dx) + r * count);
  }
}

#define XLA_FFI_KIT_INSTANTIATE(T)                                    \
  template void RmsNorm(const T*, int64_t, int64_t, double, T*,       \
                        AccumulationType<T>*);                        \
  template void RmsNormBackward(const AccumulationType<T>*, const T*, \
                                const T*, int64_t, int64_t, T*)
XLA_FFI_KIT_INSTANTIATE(Float16);
XLA_FFI_KIT_INSTANTIATE(BFloat16);
XLA_FFI_KIT_INSTANTIATE(float);
XLA_FFI_KIT_INSTANTIATE(double);
XLA_FFI_KIT_INSTANTIATE(std::complex<float>);
XLA_FFI_KIT_INSTANTIATE(std::complex<double>);
#undef XLA_FFI_KIT_INSTANTIATE

}  // namespace xla_ffi_kit
