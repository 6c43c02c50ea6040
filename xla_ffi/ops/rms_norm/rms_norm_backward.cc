#include <algorithm>
#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "xla_ffi/core/accumulation_type.h"
#include "xla_ffi/core/components.h"
#include "xla_ffi/core/half.h"
#include "xla_ffi/core/simd_targets.h"
#include "xla_ffi/ops/rms_norm/rms_norm.h"

// Compiles the rest of this file once per instruction set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "xla_ffi/ops/rms_norm/rms_norm_backward.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// Must come after foreach_target.h.
#include "hwy/highway.h"
#include "xla_ffi/core/simd_float-inl.h"
#include "xla_ffi/core/simd_sum-inl.h"
#include "xla_ffi/ops/rms_norm/rms_norm-inl.h"

HWY_BEFORE_NAMESPACE();
namespace xla_ffi_kit {
namespace HWY_NAMESPACE {

// One row, or part of one, in components. What the row has decides, at compile
// time, what the loops over it do.
template <typename T, bool kWeight>
struct BackwardRow {
  using R = ComponentType<T>;
  using D = WideTag<R>;
  static constexpr bool kComplex = kComponents<T> == 2;

  BackwardRow(const RmsNormBackwardArgs<T>& args, int64_t row, int64_t begin,
              int64_t end)
      : count(static_cast<size_t>(kComponents<T> * (end - begin))) {
    const int64_t offset = row * args.n + begin;
    x = AsComponents(args.x + offset);
    ct = AsComponents(args.ct + offset);
    dx = AsComponents(args.dx + offset);
    if (args.ct_sum != nullptr) ct_sum = AsComponents(args.ct_sum + offset);
    if constexpr (kWeight) {
      const int64_t index =
          row < args.rows_per_weight ? 0 : row / args.rows_per_weight;
      weight = AsComponents(args.weight + index * args.n + begin);
    }
  }

  template <class Access>
  HWY_INLINE auto ConjugateOfX(Access access, size_t i) const {
    const auto v = access.Load(D(), x + i);
    return kComplex ? Conjugate(v) : v;
  }
  template <class Access>
  HWY_INLINE auto G(Access access, size_t i) const {
    const auto v = access.Load(D(), ct + i);
    if constexpr (kWeight) {
      const auto w = access.Load(D(), weight + i);
      return kComplex ? TimesComplex(w, v) : Mul(w, v);
    } else {
      return v;
    }
  }

  const R* x;
  const R* ct;
  const R* ct_sum = nullptr;
  const R* weight = nullptr;
  R* dx;
  size_t count;
};

template <class Row>
struct AddDot {
  const Row& row;

  template <class Access, class V>
  HWY_INLINE V operator()(Access access, size_t i, V acc) const {
    return MulAdd(row.ConjugateOfX(access, i), row.G(access, i), acc);
  }
};

template <class Row>
struct AddDotAndSquare {
  const Row& row;

  template <class Access, class V>
  HWY_INLINE void operator()(Access access, size_t i, V& dot, V& power) const {
    const auto v = row.ConjugateOfX(access, i);
    dot = MulAdd(v, row.G(access, i), dot);
    power = MulAdd(v, v, power);
  }
};

// In this form every factor is of the order of its row's values, where scale^3
// might leave the type's range.
template <class Row, bool kSum>
struct BackwardBody {
  const Row& row;
  hn::Vec<typename Row::D> scale, mean;

  template <class Access>
  HWY_INLINE void operator()(Access access, size_t i) const {
    const typename Row::D d;
    const auto y = Mul(row.ConjugateOfX(access, i), scale);
    const auto v = NegMulAdd(y, mean, row.G(access, i));
    if constexpr (kSum) {
      const auto sum = access.Load(d, row.ct_sum + i);
      access.Store(MulAdd(v, scale, sum), d, row.dx + i);
    } else {
      access.Store(Mul(v, scale), d, row.dx + i);
    }
  }
};

template <class Row, class Loops>
HWY_INLINE RmsNormBackwardSums SumsOf(const Row& row, bool has_scale,
                                      double scale, double eps,
                                      const Loops& loops) {
  using R = typename Row::R;
  const typename Row::D d;
  RmsNormBackwardSums sums = {0, 0};
  bool is_tiny;  // some products may have been flushed to zero
  if (has_scale) {
    sums.dot = loops.Sum(d, row.count, AddDot<Row>{row});
    is_tiny = scale * scale * kTinyPower > 1;
  } else {
    const SumPair both =
        loops.SumTwice(d, row.count, AddDotAndSquare<Row>{row});
    sums = {both.first, both.second};
    is_tiny = IsBeyondFloat(sums.power, row.count, eps);
  }
  if constexpr (kSquaresNeedDouble<R>) {
    if (HWY_UNLIKELY(is_tiny || !std::isfinite(sums.dot))) {
      sums.dot = DotInDouble(row);
      if (!has_scale) sums.power = PowerInDouble(row.x, row.count);
    }
  }
  return sums;
}

template <typename T, class Row, class Loops>
HWY_INLINE void ApplyTo(const Row& row, AccumulationType<T> scale, double dot,
                        int64_t n, const Loops& loops) {
  const typename Row::D d;
  const auto mean =
      static_cast<AccumulationType<T>>(scale * dot / static_cast<double>(n));
  const auto s = hn::Set(d, Canonical(scale));
  const auto m = hn::Set(d, Canonical(mean));
  if (row.ct_sum == nullptr) {
    const BackwardBody<Row, false> body = {row, s, m};
    loops.ForEach(d, row.count, body);
  } else {
    const BackwardBody<Row, true> body = {row, s, m};
    loops.ForEach(d, row.count, body);
  }
}

template <typename T>
AccumulationType<T> ScaleOfRow(const RmsNormBackwardArgs<T>& args, int64_t row,
                               const RmsNormBackwardSums& sums) {
  using A = AccumulationType<T>;
  if (args.scale != nullptr) return args.scale[row];
  return RmsNormScale<A>(sums.power, args.n, args.eps);
}

// Calls fn(row) with the row in the form that fits args.
template <typename T, class Fn>
HWY_INLINE auto WithRow(const RmsNormBackwardArgs<T>& args, int64_t row,
                        int64_t begin, int64_t end, const Fn& fn) {
  if (args.weight == nullptr) {
    return fn(BackwardRow<T, false>(args, row, begin, end));
  }
  return fn(BackwardRow<T, true>(args, row, begin, end));
}

template <typename T, class Loops>
HWY_INLINE RmsNormBackwardSums SumsWith(const RmsNormBackwardArgs<T>& args,
                                        int64_t row, int64_t begin, int64_t end,
                                        const Loops& loops) {
  const bool has_scale = args.scale != nullptr;
  const double scale = has_scale ? args.scale[row] : 0;
  return WithRow(args, row, begin, end, [&](const auto& r) HWY_ATTR {
    return SumsOf(r, has_scale, scale, args.eps, loops);
  });
}

template <typename T>
RmsNormBackwardSums SumsOfPart(const RmsNormBackwardArgs<T>& args, int64_t row,
                               int64_t begin, int64_t end) {
  return SumsWith(args, row, begin, end, AnyLength());
}

template <typename T>
void ApplyToPart(const RmsNormBackwardArgs<T>& args, int64_t row, int64_t begin,
                 int64_t end, const RmsNormBackwardSums& sums) {
  const AccumulationType<T> scale = ScaleOfRow(args, row, sums);
  WithRow(args, row, begin, end, [&](const auto& r) HWY_ATTR {
    ApplyTo<T>(r, scale, sums.dot, args.n, AnyLength());
  });
}

template <typename T, class Loops>
void BackwardGroup(const RmsNormBackwardArgs<T>& args, int64_t first,
                   int64_t rows, const Loops& loops) {
  double dots[kMaxGroup], powers[kMaxGroup] = {};
  AccumulationType<T> scales[kMaxGroup];
  for (int64_t r = 0; r < rows; ++r) {
    const RmsNormBackwardSums sums =
        SumsWith(args, first + r, 0, args.n, loops);
    dots[r] = sums.dot;
    powers[r] = sums.power;
  }
  if (args.scale != nullptr) {
    std::copy_n(args.scale + first, rows, scales);
  } else {
    ScalesOf(powers, rows, args.n, args.eps, scales);
  }
  for (int64_t r = 0; r < rows; ++r) {
    WithRow(args, first + r, 0, args.n, [&](const auto& row) HWY_ATTR {
      ApplyTo<T>(row, scales[r], dots[r], args.n, loops);
    });
  }
}

template <typename T>
void Backward(const RmsNormBackwardArgs<T>& args, int64_t begin, int64_t end) {
  const int64_t group = GroupSize(2 * args.n * static_cast<int64_t>(sizeof(T)));
  WithLoops<T>(args.n, [&](const auto& loops) HWY_ATTR {
    for (int64_t first = begin; first < end; first += group) {
      BackwardGroup(args, first, std::min(group, end - first), loops);
    }
  });
}

// Adds the terms of a few rows in one vector of columns, so that the sums in
// double are loaded and stored once per group of rows.
template <typename T>
struct WeightBackwardBody {
  using R = ComponentType<T>;
  using D = WideTag<R>;

  const R* x;
  const R* ct;
  const AccumulationType<T>* scale;
  size_t rows, stride;
  double* dweight;

  // The factors of row r's term.
  template <class Access>
  HWY_INLINE auto Y(Access access, size_t r, size_t i) const {
    const D d;
    return Mul(access.Load(d, x + r * stride + i), hn::Set(d, scale[r]));
  }
  template <class Access>
  HWY_INLINE auto G(Access access, size_t r, size_t i) const {
    return access.Load(D(), ct + r * stride + i);
  }

  template <class Access>
  HWY_INLINE void operator()(Access access, size_t i) const {
    const auto y = Y(access, 0, i), g = G(access, 0, i);
    if constexpr (kComponents<T> == 2) {
      auto sum = TimesComplex(y, g);
      for (size_t r = 1; r < rows; ++r) {
        sum = Add(sum, TimesComplex(Y(access, r, i), G(access, r, i)));
      }
      AddTo(access, sum, dweight + i);
    } else {
      auto sum = Mul(y, g);
      for (size_t r = 1; r < rows; ++r) {
        sum = MulAdd(Y(access, r, i), G(access, r, i), sum);
      }
      AddTo(access, sum, dweight + i);
    }
  }

  static HWY_INLINE void AddTo(WholePair, Pair<hn::Vec<D>> v, double* p) {
    const D d;
    if constexpr (std::is_same_v<R, BFloat16>) {  // even and odd elements
      v = {hn::InterleaveWholeLower(d, v.a, v.b),
           hn::InterleaveWholeUpper(d, v.a, v.b)};
    }
    AddTo(WholeVector(), v.a, p);
    AddTo(WholeVector(), v.b, p + hn::Lanes(d));
  }
  static HWY_INLINE void AddTo(WholeVector, hn::Vec<D> v, double* p) {
    const hn::ScalableTag<double> dd;
    if constexpr (sizeof(hn::TFromD<D>) == sizeof(double)) {
      hn::StoreU(hn::Add(hn::LoadU(dd, p), v), dd, p);
    } else {
      const size_t n = hn::Lanes(dd);
      const auto low = hn::PromoteLowerTo(dd, v);
      const auto high = hn::PromoteUpperTo(dd, v);
      hn::StoreU(hn::Add(hn::LoadU(dd, p), low), dd, p);
      hn::StoreU(hn::Add(hn::LoadU(dd, p + n), high), dd, p + n);
    }
  }
  static HWY_INLINE void AddTo(PartOfVector part, hn::Vec<D> v, double* p) {
    double sums[hn::MaxLanes(D())] = {};
    std::copy_n(p, part.count, sums);
    AddTo(WholeVector(), v, sums);
    std::copy_n(sums, part.count, p);
  }
};

template <typename T>
void WeightBackward(const RmsNormBackwardArgs<T>& args, int64_t begin,
                    int64_t end, int64_t first, int64_t last, double* dweight) {
  constexpr int64_t kGroup = 8;
  for (int64_t row = begin; row < end; row += kGroup) {
    const int64_t offset = row * args.n + first;
    const WeightBackwardBody<T> body = {
        AsComponents(args.x + offset),
        AsComponents(args.ct + offset),
        args.scale + row,
        static_cast<size_t>(std::min(kGroup, end - row)),
        static_cast<size_t>(kComponents<T> * args.n),
        dweight};
    ForEachVector(WideTag<ComponentType<T>>(),
                  static_cast<size_t>(kComponents<T> * (last - first)), body);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace xla_ffi_kit
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace xla_ffi_kit {

template <typename T>
void RmsNormBackward(const RmsNormBackwardArgs<T>& args, int64_t begin,
                     int64_t end) {
  HWY_EXPORT_T(Table, Backward<T>);
  HWY_DYNAMIC_DISPATCH_T(Table)(args, begin, end);
}

template <typename T>
RmsNormBackwardSums RmsNormBackwardReduce(const RmsNormBackwardArgs<T>& args,
                                          int64_t row, int64_t begin,
                                          int64_t end) {
  HWY_EXPORT_T(Table, SumsOfPart<T>);
  return HWY_DYNAMIC_DISPATCH_T(Table)(args, row, begin, end);
}

template <typename T>
void RmsNormBackwardApply(const RmsNormBackwardArgs<T>& args, int64_t row,
                          int64_t begin, int64_t end,
                          const RmsNormBackwardSums& sums) {
  HWY_EXPORT_T(Table, ApplyToPart<T>);
  HWY_DYNAMIC_DISPATCH_T(Table)(args, row, begin, end, sums);
}

template <typename T>
void RmsNormWeightBackward(const RmsNormBackwardArgs<T>& args, int64_t begin,
                           int64_t end, int64_t first, int64_t last,
                           double* dweight) {
  HWY_EXPORT_T(Table, WeightBackward<T>);
  HWY_DYNAMIC_DISPATCH_T(Table)(args, begin, end, first, last, dweight);
}

#define XLA_FFI_KIT_INSTANTIATE(T)                                            \
  template void RmsNormBackward(const RmsNormBackwardArgs<T>&, int64_t,       \
                                int64_t);                                     \
  template RmsNormBackwardSums RmsNormBackwardReduce(                         \
      const RmsNormBackwardArgs<T>&, int64_t, int64_t, int64_t);              \
  template void RmsNormBackwardApply(const RmsNormBackwardArgs<T>&, int64_t,  \
                                     int64_t, int64_t,                        \
                                     const RmsNormBackwardSums&);             \
  template void RmsNormWeightBackward(const RmsNormBackwardArgs<T>&, int64_t, \
                                      int64_t, int64_t, int64_t, double*)
XLA_FFI_KIT_INSTANTIATE(Float16);
XLA_FFI_KIT_INSTANTIATE(BFloat16);
XLA_FFI_KIT_INSTANTIATE(float);
XLA_FFI_KIT_INSTANTIATE(double);
XLA_FFI_KIT_INSTANTIATE(std::complex<float>);
XLA_FFI_KIT_INSTANTIATE(std::complex<double>);
#undef XLA_FFI_KIT_INSTANTIATE

}  // namespace xla_ffi_kit

#endif  // HWY_ONCE
