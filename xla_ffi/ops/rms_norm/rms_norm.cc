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
    const auto v = Add(access.Load(d, x + i), access.Load(d, residual + i));
    access.Store(v, d, sum + i);
    // The backward pass and the next layer get the rounded value.
    const auto h = RoundTo<R>(v);
    return MulAdd(h, h, acc);
  }
};

// The factors of y besides h * scale.
enum class Kind { kPlain, kWeight, kComplexWeight };

// A complex weight multiplies pairs.
template <typename R, Kind kKind>
struct ScaleBody {
  const R* h;
  const R* weight;
  R* y;
  hn::Vec<WideTag<R>> scale;

  template <class Access>
  HWY_INLINE void operator()(Access access, size_t i) const {
    const WideTag<R> d;
    auto v = Mul(access.Load(d, h + i), scale);
    if constexpr (kKind != Kind::kPlain) {
      const auto w = access.Load(d, weight + i);
      if constexpr (kKind == Kind::kComplexWeight) {
        v = TimesComplex(v, w);
      } else {
        v = Mul(v, w);
      }
    }
    access.Store(v, d, y + i);
  }
};

// One row, or part of one, in components.
template <typename T>
struct Row {
  using R = ComponentType<T>;

  Row(const RmsNormForwardArgs<T>& args, int64_t row, int64_t begin,
      int64_t end)
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
      // Most weights are for all rows, and a division takes as long as a row
      // of 64 elements.
      const int64_t index =
          row < args.rows_per_weight ? 0 : row / args.rows_per_weight;
      weight = AsComponents(args.weight + index * args.n + begin);
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

template <typename T, class Loops>
HWY_INLINE double PowerOf(const Row<T>& row, const Loops& loops) {
  using R = ComponentType<T>;
  const WideTag<R> d;
  const R* h = row.residual == nullptr ? row.x : row.sum;
  const double power =
      row.residual == nullptr
          ? loops.Sum(d, row.count, AddSquare<R>{row.x})
          : loops.Sum(d, row.count,
                      AddSquareOfSum<R>{row.x, row.residual, row.sum});
  if constexpr (kSquaresNeedDouble<R>) {
    if (HWY_UNLIKELY(IsBeyondFloat(power, row.count, row.eps))) {
      return PowerInDouble(h, row.count);
    }
  }
  return power;
}

template <Kind kKind, typename T, class Loops>
HWY_INLINE void ApplyAs(const Row<T>& row, AccumulationType<T> scale,
                        const Loops& loops) {
  using R = ComponentType<T>;
  const WideTag<R> d;
  const R* h = row.residual == nullptr ? row.x : row.sum;
  const ScaleBody<R, kKind> body = {h, row.weight, row.y,
                                    hn::Set(d, Canonical(scale))};
  loops.ForEach(d, row.count, body);
}

template <typename T, class Loops>
HWY_INLINE void Apply(const Row<T>& row, AccumulationType<T> scale,
                      const Loops& loops) {
  if (row.weight == nullptr) return ApplyAs<Kind::kPlain>(row, scale, loops);
  if constexpr (kComponents<T> == 2) {
    ApplyAs<Kind::kComplexWeight>(row, scale, loops);
  } else {
    ApplyAs<Kind::kWeight>(row, scale, loops);
  }
}

template <typename T, class Loops>
void ForwardGroup(const RmsNormForwardArgs<T>& args, int64_t first,
                  int64_t rows, const Loops& loops,
                  AccumulationType<T>* scales) {
  double powers[kMaxGroup] = {};
  for (int64_t r = 0; r < rows; ++r) {
    powers[r] = PowerOf(Row<T>(args, first + r, 0, args.n), loops);
  }
  ScalesOf(powers, rows, args.n, args.eps, scales);
  for (int64_t r = 0; r < rows; ++r) {
    Apply(Row<T>(args, first + r, 0, args.n), scales[r], loops);
  }
}

template <typename T>
void Forward(const RmsNormForwardArgs<T>& args, int64_t begin, int64_t end) {
  const int64_t group = GroupSize(args.n * static_cast<int64_t>(sizeof(T)));
  WithLoops<T>(args.n, [&](const auto& loops) HWY_ATTR {
    for (int64_t first = begin; first < end; first += group) {
      const int64_t rows = std::min(group, end - first);
      AccumulationType<T> scales[kMaxGroup];
      ForwardGroup(args, first, rows, loops, scales);
      if (args.scale != nullptr) {
        std::copy_n(scales, rows, args.scale + first);
      }
    }
  });
}

template <typename T>
double PowerOfPart(const RmsNormForwardArgs<T>& args, int64_t row,
                   int64_t begin, int64_t end) {
  return PowerOf(Row<T>(args, row, begin, end), AnyLength());
}

template <typename T>
void ApplyToPart(const RmsNormForwardArgs<T>& args, int64_t row, int64_t begin,
                 int64_t end, AccumulationType<T> scale) {
  Apply(Row<T>(args, row, begin, end), scale, AnyLength());
}

}  // namespace HWY_NAMESPACE
}  // namespace xla_ffi_kit
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace xla_ffi_kit {

template <typename T>
void RmsNorm(const RmsNormForwardArgs<T>& args, int64_t begin, int64_t end) {
  HWY_EXPORT_T(Table, Forward<T>);
  HWY_DYNAMIC_DISPATCH_T(Table)(args, begin, end);
}

template <typename T>
double RmsNormPower(const RmsNormForwardArgs<T>& args, int64_t row,
                    int64_t begin, int64_t end) {
  HWY_EXPORT_T(Table, PowerOfPart<T>);
  return HWY_DYNAMIC_DISPATCH_T(Table)(args, row, begin, end);
}

template <typename T>
void RmsNormApply(const RmsNormForwardArgs<T>& args, int64_t row, int64_t begin,
                  int64_t end, AccumulationType<T> scale) {
  HWY_EXPORT_T(Table, ApplyToPart<T>);
  HWY_DYNAMIC_DISPATCH_T(Table)(args, row, begin, end, scale);
}

#define XLA_FFI_KIT_INSTANTIATE(T)                                             \
  template void RmsNorm(const RmsNormForwardArgs<T>&, int64_t, int64_t);       \
  template double RmsNormPower(const RmsNormForwardArgs<T>&, int64_t, int64_t, \
                               int64_t);                                       \
  template void RmsNormApply(const RmsNormForwardArgs<T>&, int64_t, int64_t,   \
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
