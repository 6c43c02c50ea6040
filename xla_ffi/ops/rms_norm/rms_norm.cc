#include "xla_ffi/ops/rms_norm/rms_norm.h"

#include <algorithm>
#include <complex>
#include <cstddef>
#include <cstdint>

#include "xla_ffi/core/accumulation_type.h"
#include "xla_ffi/core/components.h"
#include "xla_ffi/core/half.h"
#include "xla_ffi/core/simd_targets.h"

// Compiles the rest of this file once per instruction set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "xla_ffi/ops/rms_norm/rms_norm.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// Must come after foreach_target.h.
#include "hwy/highway.h"
#include "xla_ffi/core/simd_float-inl.h"
#include "xla_ffi/ops/rms_norm/rms_norm-inl.h"

HWY_BEFORE_NAMESPACE();
namespace xla_ffi_kit {
namespace HWY_NAMESPACE {

// h = x + residual, stored and squared.
template <typename R>
struct AddSquareOfSum {
  const R* x;
  const R* residual;
  R* sum;

  template <class Access, class V>
  HWY_INLINE V operator()(Access access, size_t i, V acc) const {
    const WideTag<R> d;
    const auto v = Plus(access.Load(d, x + i), access.Load(d, residual + i));
    access.Store(v, d, sum + i);
    // What the backward pass and the next layer will see is the rounded value.
    const auto h = RoundTo<R>(v);
    return TimesPlus(h, h, acc);
  }
};

// y = h * scale * weight. A complex weight multiplies pairs.
template <typename R, bool kWeight, bool kComplex>
struct ScaleBody {
  const R* h;
  const R* weight;
  R* y;
  hn::Vec<WideTag<R>> scale;

  template <class Access>
  HWY_INLINE void operator()(Access access, size_t i) const {
    const WideTag<R> d;
    auto v = Times(access.Load(d, h + i), scale);
    if constexpr (kWeight) {
      const auto w = access.Load(d, weight + i);
      v = kComplex ? TimesComplex(v, w) : Times(v, w);
    }
    access.Store(v, d, y + i);
  }
};

// One row, or part of one, in components.
template <typename T>
struct Row {
  using R = ComponentType<T>;

  Row(const RmsNormForward<T>& args, int64_t row, int64_t begin, int64_t end)
      : count(static_cast<size_t>(kComponents<T> * (end - begin))),
        eps(args.eps) {
    const int64_t offset = row * args.n + begin;
    x = AsComponents(args.x + offset);
    y = AsComponents(args.y + offset);
    if (args.residual != nullptr) {
      residual = AsComponents(args.residual + offset);
      sum = AsComponents(args.sum + offset);
    }
    if (args.weight != nullptr) {
      weight = AsComponents(args.weight + row / args.rows_per_weight * args.n +
                            begin);
    }
  }

  const R* x;
  R* y;
  const R* residual = nullptr;
  R* sum = nullptr;
  const R* weight = nullptr;
  size_t count;
  double eps;
};

template <typename T>
HWY_INLINE double PowerOf(const Row<T>& row) {
  using R = ComponentType<T>;
  if (row.residual == nullptr) return Power(row.x, row.count, row.eps);
  const double power = SumVectors(
      WideTag<R>(), row.count, AddSquareOfSum<R>{row.x, row.residual, row.sum});
  if constexpr (kSquaresNeedDouble<R>) {
    if (HWY_UNLIKELY(IsBeyondFloat(power, row.count, row.eps))) {
      return PowerInDouble(row.sum, row.count);
    }
  }
  return power;
}

template <typename T>
HWY_INLINE void Apply(const Row<T>& row, AccumulationType<T> scale) {
  using R = ComponentType<T>;
  const WideTag<R> d;
  const R* h = row.residual == nullptr ? row.x : row.sum;
  const auto s = hn::Set(d, Canonical(scale));
  if (row.weight == nullptr) {
    const ScaleBody<R, false, false> body = {h, nullptr, row.y, s};
    ForEachVector(d, row.count, body);
  } else {
    const ScaleBody<R, true, kComponents<T> == 2> body = {h, row.weight, row.y,
                                                          s};
    ForEachVector(d, row.count, body);
  }
}

// Plain rows of kPairs pairs of vectors. Of short rows the bookkeeping of the
// general loops is the greater part.
template <size_t kPairs, typename T>
HWY_INLINE void ForwardShortRows(const RmsNormForward<T>& args, int64_t first,
                                 int64_t rows, double* powers,
                                 AccumulationType<T>* scales) {
  using R = ComponentType<T>;
  const WideTag<R> d;
  constexpr WholePair kPair;
  const size_t step = 2 * hn::Lanes(d), count = kPairs * step;
  const R* x = AsComponents(args.x + first * args.n);
  for (int64_t r = 0; r < rows; ++r) {
    const R* row = x + r * static_cast<int64_t>(count);
    const auto v = kPair.Load(d, row);
    auto sum = Times(v, v);
    for (size_t k = 1; k < kPairs; ++k) {
      const auto w = kPair.Load(d, row + k * step);
      sum = TimesPlus(w, w, sum);
    }
    Total<WideTag<R>> total;
    total.Add(Folded(sum));
    powers[r] = total.Get();
    if constexpr (kSquaresNeedDouble<R>) {
      if (HWY_UNLIKELY(IsBeyondFloat(powers[r], count, args.eps))) {
        powers[r] = PowerInDouble(row, count);
      }
    }
  }
  ScalesOf(powers, rows, args.n, args.eps, scales);
  R* y = AsComponents(args.y + first * args.n);
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t offset = r * static_cast<int64_t>(count);
    const auto scale = hn::Set(d, Canonical(scales[r]));
    for (size_t k = 0; k < kPairs; ++k) {
      const auto v = kPair.Load(d, x + offset + k * step);
      kPair.Store(Times(v, scale), d, y + offset + k * step);
    }
  }
}

template <typename T>
void ForwardGroup(const RmsNormForward<T>& args, int64_t first, int64_t rows,
                  double* powers, AccumulationType<T>* scales) {
  for (int64_t r = 0; r < rows; ++r) {
    powers[r] = PowerOf(Row<T>(args, first + r, 0, args.n));
  }
  ScalesOf(powers, rows, args.n, args.eps, scales);
  for (int64_t r = 0; r < rows; ++r) {
    Apply(Row<T>(args, first + r, 0, args.n), scales[r]);
  }
}

template <typename T>
void Forward(const RmsNormForward<T>& args, int64_t begin, int64_t end) {
  const WideTag<ComponentType<T>> d;
  const int64_t group = GroupSize(args.n * static_cast<int64_t>(sizeof(T)));
  const size_t step = 2 * hn::Lanes(d);
  const size_t count = static_cast<size_t>(kComponents<T> * args.n);
  const bool is_plain = args.residual == nullptr && args.weight == nullptr;
  const size_t pairs = is_plain && count % step == 0 ? count / step : 0;
  for (int64_t first = begin; first < end; first += group) {
    const int64_t rows = std::min(group, end - first);
    double powers[kMaxGroup] = {};
    AccumulationType<T> scales[kMaxGroup];
    if (pairs == 1) {
      ForwardShortRows<1>(args, first, rows, powers, scales);
    } else if (pairs == 2) {
      ForwardShortRows<2>(args, first, rows, powers, scales);
    } else if (pairs == 4) {
      ForwardShortRows<4>(args, first, rows, powers, scales);
    } else {
      ForwardGroup(args, first, rows, powers, scales);
    }
    if (args.scale != nullptr) {
      std::copy_n(scales, rows, args.scale + first);
    }
  }
}

template <typename T>
double PowerOfPart(const RmsNormForward<T>& args, int64_t row, int64_t begin,
                   int64_t end) {
  return PowerOf(Row<T>(args, row, begin, end));
}

template <typename T>
void ApplyToPart(const RmsNormForward<T>& args, int64_t row, int64_t begin,
                 int64_t end, AccumulationType<T> scale) {
  Apply(Row<T>(args, row, begin, end), scale);
}

}  // namespace HWY_NAMESPACE
}  // namespace xla_ffi_kit
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace xla_ffi_kit {

template <typename T>
void RmsNorm(const RmsNormForward<T>& args, int64_t begin, int64_t end) {
  HWY_EXPORT_T(Table, Forward<T>);
  HWY_DYNAMIC_DISPATCH_T(Table)(args, begin, end);
}

template <typename T>
double RmsNormPower(const RmsNormForward<T>& args, int64_t row, int64_t begin,
                    int64_t end) {
  HWY_EXPORT_T(Table, PowerOfPart<T>);
  return HWY_DYNAMIC_DISPATCH_T(Table)(args, row, begin, end);
}

template <typename T>
void RmsNormApply(const RmsNormForward<T>& args, int64_t row, int64_t begin,
                  int64_t end, AccumulationType<T> scale) {
  HWY_EXPORT_T(Table, ApplyToPart<T>);
  HWY_DYNAMIC_DISPATCH_T(Table)(args, row, begin, end, scale);
}

#define XLA_FFI_KIT_INSTANTIATE(T)                                         \
  template void RmsNorm(const RmsNormForward<T>&, int64_t, int64_t);       \
  template double RmsNormPower(const RmsNormForward<T>&, int64_t, int64_t, \
                               int64_t);                                   \
  template void RmsNormApply(const RmsNormForward<T>&, int64_t, int64_t,   \
                             int64_t, AccumulationType<T>)
XLA_FFI_KIT_INSTANTIATE(Float16);
XLA_FFI_KIT_INSTANTIATE(BFloat16);
XLA_FFI_KIT_INSTANTIATE(float);
XLA_FFI_KIT_INSTANTIATE(double);
XLA_FFI_KIT_INSTANTIATE(std::complex<float>);
XLA_FFI_KIT_INSTANTIATE(std::complex<double>);
#undef XLA_FFI_KIT_INSTANTIATE

}  // namespace xla_ffi_kit

#endif  // HWY_ONCE
