// Sums of products over rows, shared by the forward and the backward.
//
// Compiled once per instruction set, as Highway's foreach_target.h does.

#if defined(XLA_FFI_OPS_RMS_NORM_RMS_NORM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef XLA_FFI_OPS_RMS_NORM_RMS_NORM_INL_H_
#undef XLA_FFI_OPS_RMS_NORM_RMS_NORM_INL_H_
#else
#define XLA_FFI_OPS_RMS_NORM_RMS_NORM_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "hwy/highway.h"
#include "xla_ffi/core/accumulation_type.h"
#include "xla_ffi/core/half.h"
#include "xla_ffi/core/simd_float-inl.h"
#include "xla_ffi/core/simd_sum-inl.h"

HWY_BEFORE_NAMESPACE();
namespace xla_ffi_kit {
namespace HWY_NAMESPACE {

// Whether squares of R may leave the range of the type they are computed in,
// while R's own range is not exceeded: 1e20 squared is no float. Float16 is
// widened to float, and double has nothing wider.
template <typename R>
inline constexpr bool kSquaresNeedDouble =
    std::is_same_v<R, float> || std::is_same_v<R, BFloat16>;

// Below this mean of |x|^2, some squares may have been flushed to zero.
inline constexpr double kTinyPower = 1e-30;

// Whether sums of products of floats must be computed again in double.
inline bool IsBeyondFloat(double power, size_t count, double eps) {
  return !std::isfinite(power) ||
         (power < kTinyPower * static_cast<double>(count) && eps < 1e-22);
}

// Sum of x[i] * x[i] in double: slow, and rarely needed.
template <typename R>
double PowerInDouble(const R* x, size_t count) {
  double sum = 0;
  for (size_t i = 0; i < count; ++i) {
    const double value = static_cast<float>(x[i]);
    sum += value * value;
  }
  return sum;
}

template <typename R>
struct AddSquare {
  const R* x;

  template <class Access, class V>
  HWY_INLINE V operator()(Access access, size_t i, V acc) const {
    const auto v = access.Load(WideTag<R>(), x + i);
    return TimesPlus(v, v, acc);
  }
};

// Sum of x[i] * x[i].
template <typename R>
HWY_INLINE double Power(const R* x, size_t count, double eps) {
  const double power = SumVectors(WideTag<R>(), count, AddSquare<R>{x});
  if constexpr (kSquaresNeedDouble<R>) {
    if (HWY_UNLIKELY(IsBeyondFloat(power, count, eps))) {
      return PowerInDouble(x, count);
    }
  }
  return power;
}

// Rows are worked on in groups, one phase after the other: the latency of a
// row's root and quotient, and of folding its sums, then hides behind the other
// rows. A group stays in the first-level cache; long rows go one by one.
constexpr int64_t kMaxGroup = 16;

inline int64_t GroupSize(int64_t row_bytes) {
  return std::clamp<int64_t>(8192 / row_bytes, 1, kMaxGroup);
}

// The scale of each of `count` rows from its sum of squares.
template <typename A>
HWY_INLINE void ScalesOf(const double* powers, int64_t count, int64_t n,
                         double eps, A* scales) {
  const hn::CappedTag<double, kMaxGroup> d;
  const auto inverse_length = hn::Set(d, 1 / static_cast<double>(n));
  double results[kMaxGroup];
  for (int64_t i = 0; i < kMaxGroup; i += hn::Lanes(d)) {
    if (i >= count) break;
    const auto mean =
        hn::MulAdd(hn::LoadU(d, powers + i), inverse_length, hn::Set(d, eps));
    const auto root = hn::Sqrt(mean);
    hn::StoreU(hn::Div(hn::Set(d, 1.0), root), d, results + i);
  }
  for (int64_t i = 0; i < count; ++i) scales[i] = static_cast<A>(results[i]);
}

}  // namespace HWY_NAMESPACE
}  // namespace xla_ffi_kit
HWY_AFTER_NAMESPACE();

#endif  // XLA_FFI_OPS_RMS_NORM_RMS_NORM_INL_H_
