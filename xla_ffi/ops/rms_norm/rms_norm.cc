#include "xla_ffi/ops/rms_norm/rms_norm.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "xla_ffi/core/dtypes.h"
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

template <typename R>
struct AddSquare {
  const R* x;

  template <class Access, class V>
  HWY_INLINE V operator()(Access access, size_t i, V acc) const {
    const auto v = access.Load(WideTag<R>(), x + i);
    return MulAdd(v, v, acc);
  }
};

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

template <typename R, bool kWeight>
struct ScaleBody {
  const R* h;
  const R* weight;
  R* y;
  hn::Vec<WideTag<R>> scale;

  template <class Access>
  HWY_INLINE void operator()(Access access, size_t i) const {
    const WideTag<R> d;
    auto v = Mul(access.Load(d, h + i), scale);
    if constexpr (kWeight) v = Mul(v, access.Load(d, weight + i));
    access.Store(v, d, y + i);
  }
};

// One row, or part of one.
template <typename R>
struct Row {
  Row(const RmsNormForwardArgs<R>& args, int64_t row, int64_t begin,
      int64_t end)
      : count(static_cast<size_t>(end - begin)), eps(args.eps) {
    const int64_t offset = row * args.n + begin;
    x = args.x + offset;
    y = args.y + offset;
    if (args.residual != nullptr) {
      residual = args.residual + offset;
      sum = args.sum + offset;
    }
    if (args.weight != nullptr) {
      weight = WeightOf(args, row) + begin;
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

template <typename R>
HWY_INLINE double PowerOf(const Row<R>& row) {
  const WideTag<R> d;
  const R* h = row.residual == nullptr ? row.x : row.sum;
  const double power =
      row.residual == nullptr
          ? SumVectors(d, row.count, AddSquare<R>{row.x})
          : SumVectors(d, row.count,
                       AddSquareOfSum<R>{row.x, row.residual, row.sum});
  if constexpr (kSquaresNeedDouble<R>) {
    if (HWY_UNLIKELY(IsBeyondFloat(power, row.count, row.eps))) {
      return DotInDouble<R>(h, h, nullptr, row.count);
    }
  }
  return power;
}

template <typename R>
HWY_INLINE void Apply(const Row<R>& row, AccumulationType<R> scale) {
  const WideTag<R> d;
  const R* h = row.residual == nullptr ? row.x : row.sum;
  const auto s = hn::Set(d, Canonical(scale));
  if (row.weight == nullptr) {
    ForEachVector(d, row.count, ScaleBody<R, false>{h, nullptr, row.y, s});
  } else {
    ForEachVector(d, row.count, ScaleBody<R, true>{h, row.weight, row.y, s});
  }
}

template <typename T>
void Forward(const RmsNormForwardArgs<T>& args, int64_t begin, int64_t end) {
  const int64_t group = GroupSize(args.n * static_cast<int64_t>(sizeof(T)));
  for (int64_t first = begin; first < end; first += group) {
    const int64_t rows = std::min(group, end - first);
    const auto row = [&](int64_t r) HWY_ATTR {
      return Row<T>(args, first + r, 0, args.n);
    };
    double powers[kMaxGroup] = {};
    AccumulationType<T> scales[kMaxGroup];
    for (int64_t r = 0; r < rows; ++r) powers[r] = PowerOf(row(r));
    ScalesOf(powers, rows, args.n, args.eps, scales);
    for (int64_t r = 0; r < rows; ++r) Apply(row(r), scales[r]);
    if (args.scale != nullptr) std::copy_n(scales, rows, args.scale + first);
  }
}

template <typename T>
double PowerOfPart(const RmsNormForwardArgs<T>& args, int64_t row,
                   int64_t begin, int64_t end) {
  return PowerOf(Row<T>(args, row, begin, end));
}

template <typename T>
void ApplyToPart(const RmsNormForwardArgs<T>& args, int64_t row, int64_t begin,
                 int64_t end, AccumulationType<T> scale) {
  Apply(Row<T>(args, row, begin, end), scale);
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
XLA_FFI_KIT_RMS_NORM_TYPES(XLA_FFI_KIT_INSTANTIATE);

}  // namespace xla_ffi_kit

#endif  // HWY_ONCE
