#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <type_traits>

#include "xla_ffi/core/dtypes.h"
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
#include "xla_ffi/ops/rms_norm/rms_norm-inl.h"

HWY_BEFORE_NAMESPACE();
namespace xla_ffi_kit {
namespace HWY_NAMESPACE {

// One row, or part of one. What the row has decides, at compile time, what the
// loops over it do.
template <typename T, bool kWeight>
struct BackwardRow {
  using D = WideTag<T>;

  BackwardRow(const RmsNormBackwardArgs<T>& args, int64_t row, int64_t begin,
              int64_t end)
      : count(static_cast<size_t>(end - begin)) {
    const int64_t offset = row * args.n + begin;
    x = args.x + offset;
    ct = args.ct + offset;
    dx = args.dx + offset;
    if (args.ct_sum != nullptr) ct_sum = args.ct_sum + offset;
    if constexpr (kWeight) weight = WeightOf(args, row) + begin;
  }

  template <class Access>
  HWY_INLINE auto X(Access access, size_t i) const {
    return access.Load(D(), x + i);
  }
  template <class Access>
  HWY_INLINE auto G(Access access, size_t i) const {
    const auto v = access.Load(D(), ct + i);
    if constexpr (kWeight) {
      return Mul(access.Load(D(), weight + i), v);
    } else {
      return v;
    }
  }

  const T* x;
  const T* ct;
  const T* ct_sum = nullptr;
  const T* weight = nullptr;
  T* dx;
  size_t count;
};

// Calls fn(row) with part of a row, in the form that fits args.
template <typename T, class Fn>
HWY_INLINE auto WithRow(const RmsNormBackwardArgs<T>& args, int64_t row,
                        int64_t begin, int64_t end, const Fn& fn) {
  if (args.weight == nullptr) {
    return fn(BackwardRow<T, false>(args, row, begin, end));
  }
  return fn(BackwardRow<T, true>(args, row, begin, end));
}

template <typename T>
HWY_INLINE RmsNormBackwardSums SumsOf(const RmsNormBackwardArgs<T>& args,
                                      int64_t index, int64_t begin,
                                      int64_t end) {
  const WideTag<T> d;
  const bool has_scale = args.scale != nullptr;
  const double scale = has_scale ? args.scale[index] : 0;
  return WithRow(args, index, begin, end, [&](const auto& row) HWY_ATTR {
    RmsNormBackwardSums sums;
    bool is_tiny;  // some products may have been flushed to zero
    if (has_scale) {
      sums.dot =
          SumVectors(d, row.count,
                     [&](auto access, size_t i, auto acc) XLA_FFI_KIT_INLINED {
                       return MulAdd(row.X(access, i), row.G(access, i), acc);
                     });
      is_tiny = scale * scale * kTinyPower > 1;
    } else {
      std::tie(sums.dot, sums.power) =
          SumVectorsTwice(d, row.count,
                          [&](auto access, size_t i, auto& dot, auto& power)
                              XLA_FFI_KIT_INLINED {
                                const auto v = row.X(access, i);
                                dot = MulAdd(v, row.G(access, i), dot);
                                power = MulAdd(v, v, power);
                              });
      is_tiny = IsBeyondFloat(sums.power, row.count, args.eps);
    }
    if constexpr (kSquaresNeedDouble<T>) {
      if (HWY_UNLIKELY(is_tiny || !std::isfinite(sums.dot))) {
        sums.dot = DotInDouble(row.x, row.ct, row.weight, row.count);
        if (!has_scale) {
          sums.power = DotInDouble<T>(row.x, row.x, nullptr, row.count);
        }
      }
    }
    return sums;
  });
}

template <typename T>
HWY_INLINE void Apply(const RmsNormBackwardArgs<T>& args, int64_t index,
                      int64_t begin, int64_t end, AccumulationType<T> scale,
                      double dot) {
  const WideTag<T> d;
  const auto mean = static_cast<AccumulationType<T>>(
      scale * dot / static_cast<double>(args.n));
  const auto s = hn::Set(d, Canonical(scale));
  const auto m = hn::Set(d, Canonical(mean));
  WithRow(args, index, begin, end, [&](const auto& row) XLA_FFI_KIT_INLINED {
    // In this form every factor is of the order of its row's values, where
    // scale^3 might leave the type's range.
    const auto of_scale = [&](auto access, size_t i) XLA_FFI_KIT_INLINED {
      return NegMulAdd(Mul(row.X(access, i), s), m, row.G(access, i));
    };
    if (row.ct_sum == nullptr) {
      ForEachVector(d, row.count,
                    [&](auto access, size_t i) XLA_FFI_KIT_INLINED {
                      access.Store(Mul(of_scale(access, i), s), d, row.dx + i);
                    });
    } else {
      ForEachVector(d, row.count,
                    [&](auto access, size_t i) XLA_FFI_KIT_INLINED {
                      const auto v = of_scale(access, i);
                      const auto ct_sum = access.Load(d, row.ct_sum + i);
                      access.Store(MulAdd(v, s, ct_sum), d, row.dx + i);
                    });
    }
  });
}

template <typename T>
void ApplySums(const RmsNormBackwardArgs<T>& args, int64_t row, int64_t begin,
               int64_t end, const RmsNormBackwardSums& sums) {
  using A = AccumulationType<T>;
  const A scale = args.scale != nullptr
                      ? args.scale[row]
                      : RmsNormScale<A>(sums.power, args.n, args.eps);
  Apply(args, row, begin, end, scale, sums.dot);
}

template <typename T>
void Backward(const RmsNormBackwardArgs<T>& args, int64_t begin, int64_t end) {
  const int64_t group = GroupSize(2 * args.n * static_cast<int64_t>(sizeof(T)));
  for (int64_t first = begin; first < end; first += group) {
    const int64_t rows = std::min(group, end - first);
    double dots[kMaxGroup], powers[kMaxGroup] = {};
    AccumulationType<T> scales[kMaxGroup];
    for (int64_t r = 0; r < rows; ++r) {
      const RmsNormBackwardSums sums = SumsOf(args, first + r, 0, args.n);
      dots[r] = sums.dot;
      powers[r] = sums.power;
    }
    if (args.scale != nullptr) {
      std::copy_n(args.scale + first, rows, scales);
    } else {
      ScalesOf(powers, rows, args.n, args.eps, scales);
    }
    for (int64_t r = 0; r < rows; ++r) {
      Apply(args, first + r, 0, args.n, scales[r], dots[r]);
    }
  }
}

// Adds the terms of a few rows in one vector of columns, so that the sums in
// double are loaded and stored once per group of rows.
template <typename R>
struct WeightBackwardBody {
  using D = WideTag<R>;

  const R* x;
  const R* ct;
  const AccumulationType<R>* scale;
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
    auto sum = Mul(Y(access, 0, i), G(access, 0, i));
    for (size_t r = 1; r < rows; ++r) {
      sum = MulAdd(Y(access, r, i), G(access, r, i), sum);
    }
    AddTo(access, sum, dweight + i);
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
        args.x + offset,
        args.ct + offset,
        args.scale + row,
        static_cast<size_t>(std::min(kGroup, end - row)),
        static_cast<size_t>(args.n),
        dweight};
    ForEachVector(WideTag<T>(), static_cast<size_t>(last - first), body);
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
  HWY_EXPORT_T(Table, SumsOf<T>);
  return HWY_DYNAMIC_DISPATCH_T(Table)(args, row, begin, end);
}

template <typename T>
void RmsNormBackwardApply(const RmsNormBackwardArgs<T>& args, int64_t row,
                          int64_t begin, int64_t end,
                          const RmsNormBackwardSums& sums) {
  HWY_EXPORT_T(Table, ApplySums<T>);
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
XLA_FFI_KIT_RMS_NORM_TYPES(XLA_FFI_KIT_INSTANTIATE);

}  // namespace xla_ffi_kit

#endif  // HWY_ONCE
