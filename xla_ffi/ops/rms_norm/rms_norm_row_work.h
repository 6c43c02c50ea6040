// What one thread does for a row, in the CUDA kernels of the forward.
//
// Two kinds of work (see core/cuda/rows.h): Registers, and Wide for longer
// rows. E is an Elements: a row is `packs` packs of E::W components. Without
// kHasWeight nothing is left of the weight. Plain C++ tests run this too.

#ifndef XLA_FFI_OPS_RMS_NORM_RMS_NORM_ROW_WORK_H_
#define XLA_FFI_OPS_RMS_NORM_RMS_NORM_ROW_WORK_H_

#include <cstdint>

#include "xla_ffi/core/cuda/rows.h"
#include "xla_ffi/core/host_device.h"
#include "xla_ffi/ops/rms_norm/rms_norm_elements.h"

namespace xla_ffi_kit::rms_norm_internal {

// RmsNormForwardArgs in components.
template <typename E>
struct ForwardRows {
  using R = typename E::R;
  using A = typename E::A;

  const R* x;
  const R* weight;    // or null
  const R* residual;  // or null
  R* y;               // may be x or the residual, and so may sum; y is not sum
  R* sum;             // only with a residual
  A* scale;           // or null
  int64_t rows;
  int64_t rows_per_weight;
  int64_t packs;     // of a row
  double inverse_n;  // n counts elements, not components
  double eps;
  bool add_relu;

  XLA_FFI_KIT_HOST_DEVICE int64_t RowBegin(int64_t row) const {
    return row * packs * E::W;
  }
  // With a residual, x + residual is in sum by now, maybe in place of x.
  XLA_FFI_KIT_HOST_DEVICE const R* Normalized() const {
    return residual != nullptr ? sum : x;
  }
};

// The weight of a row. Nearly always there is only one, and a division would
// take longer than the rest of a short row.
template <typename Rows>
XLA_FFI_KIT_HOST_DEVICE inline auto WeightOf(const Rows& args, int64_t row) {
  return row < args.rows_per_weight
             ? args.weight
             : args.weight + args.RowBegin(row / args.rows_per_weight);
}

// The scale of a row whose sum of |h|^2 is `power`.
template <typename Rows>
XLA_FFI_KIT_HOST_DEVICE inline auto ScaleOf(const Rows& args, double power) {
  return ReciprocalSqrt<typename Rows::A>(power * args.inverse_n + args.eps);
}

// h at component i; also stores it where a result wants it.
template <typename E>
XLA_FFI_KIT_HOST_DEVICE inline typename E::Values LoadSum(
    const ForwardRows<E>& args, int64_t i) {
  typename E::Values h = E::Load(args.x + i);
  if (args.residual != nullptr) {
    const auto residual = E::Widened(E::Load(args.residual + i));
    h = E::Rounded(E::Sum(E::Widened(h), residual));
    E::Store(h, args.sum + i);
  }
  return h;
}

// y = (h * scale) * weight, in this order: h * weight may overflow. The pack
// begins at component i of the row's `weight`.
template <typename E, bool kHasWeight>
XLA_FFI_KIT_HOST_DEVICE inline typename E::Values Normalize(
    const ForwardRows<E>& args, const typename E::Values& h,
    typename E::A scale, const typename E::R* weight, int64_t i) {
  auto y = E::Scaled(h, scale);
  if constexpr (kHasWeight) {
    y = E::Product(y, E::Load(weight + i));
    if (args.add_relu) y = E::MaxWithZero(E::Sum(y, E::Widened(h)));
  }
  return E::Rounded(y);
}

template <typename E, bool kHasWeight>
struct ForwardInRegisters {
  using Args = ForwardRows<E>;
  using A = typename E::A;
  static constexpr int kMaxThreads = kMaxThreadsInRegisters;

  typename E::Values h[kPacksPerThread];

  XLA_FFI_KIT_HOST_DEVICE double Sum(const Args& args, int64_t row,
                                     const RowThread& place) {
    const int64_t begin = args.RowBegin(row);
    const int packs = static_cast<int>(args.packs);
    A sum = 0;
    for (int k = 0; k < kPacksPerThread; ++k) {
      const int pack = place.lane + k * place.lanes;
      if (pack < packs) {
        h[k] = LoadSum(args, begin + pack * E::W);
        sum += E::Power(h[k]);
      }
    }
    return sum;
  }

  XLA_FFI_KIT_HOST_DEVICE void Finish(const Args& args, int64_t row,
                                      const RowThread& place,
                                      double power) const {
    const A scale = ScaleOf(args, power);
    const typename E::R* weight = kHasWeight ? WeightOf(args, row) : nullptr;
    auto* out = args.y + args.RowBegin(row);
    const int packs = static_cast<int>(args.packs);
    for (int k = 0; k < kPacksPerThread; ++k) {
      const int pack = place.lane + k * place.lanes;
      if (pack < packs) {
        const int i = pack * E::W;
        E::Store(Normalize<E, kHasWeight>(args, h[k], scale, weight, i),
                 out + i);
      }
    }
    if (args.scale != nullptr && place.lane == 0) args.scale[row] = scale;
  }
};

template <typename E, bool kHasWeight>
struct ForwardWide {
  using Args = ForwardRows<E>;
  using R = typename E::R;
  using A = typename E::A;
  static constexpr int kMaxThreads = 1024;

  XLA_FFI_KIT_HOST_DEVICE double Sum(const Args& args, int64_t row,
                                     const RowThread& place) const {
    const int64_t begin = args.RowBegin(row);
    auto* kept = static_cast<R*>(place.shared);
    double sum = 0;
    int slot = place.slot;
    XLA_FFI_KIT_UNROLL(4)
    for (int64_t p = place.lane; p < args.packs;
         p += place.lanes, slot += place.slot_step) {
      const auto h = LoadSum(args, begin + p * E::W);
      if (kept != nullptr) E::Store(h, kept + slot * E::W);
      sum += static_cast<double>(E::Power(h));
    }
    return sum;
  }

  XLA_FFI_KIT_HOST_DEVICE void Finish(const Args& args, int64_t row,
                                      const RowThread& place,
                                      double power) const {
    const A scale = ScaleOf(args, power);
    const int64_t begin = args.RowBegin(row);
    const R* weight = kHasWeight ? WeightOf(args, row) : nullptr;
    const R* h = args.Normalized() + begin;
    const auto* kept = static_cast<const R*>(place.shared);
    R* out = args.y + begin;
    // A thread uses what it kept itself, and so waits for nobody.
    int slot = place.slot;
    XLA_FFI_KIT_UNROLL(4)
    for (int64_t p = place.lane; p < args.packs;
         p += place.lanes, slot += place.slot_step) {
      const int64_t i = p * E::W;
      const auto of_row = E::Load(kept != nullptr ? kept + slot * E::W : h + i);
      E::Store(Normalize<E, kHasWeight>(args, of_row, scale, weight, i),
               out + i);
    }
    if (args.scale != nullptr && place.lane == 0) args.scale[row] = scale;
  }
};

}  // namespace xla_ffi_kit::rms_norm_internal

#endif  // XLA_FFI_OPS_RMS_NORM_RMS_NORM_ROW_WORK_H_
