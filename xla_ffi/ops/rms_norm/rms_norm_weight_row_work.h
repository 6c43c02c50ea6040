// What one thread does for a row, in the CUDA kernels of the forward with a
// weight, and maybe a residual: as in rms_norm_row_work.h. E is an Elements.

#ifndef XLA_FFI_OPS_RMS_NORM_RMS_NORM_WEIGHT_ROW_WORK_H_
#define XLA_FFI_OPS_RMS_NORM_RMS_NORM_WEIGHT_ROW_WORK_H_

#include <cstdint>

#include "xla_ffi/core/accumulation_type.h"
#include "xla_ffi/core/cuda/rows.h"
#include "xla_ffi/core/host_device.h"
#include "xla_ffi/ops/rms_norm/rms_norm_elements.h"
#include "xla_ffi/ops/rms_norm/rms_norm_pack.h"

namespace xla_ffi_kit::rms_norm_internal {

// y may be x or the residual, and so may sum; y is not sum.
template <typename R>
struct WeightForwardRows {
  const R* x;
  const R* weight;
  const R* residual;  // or null
  R* y;
  R* sum;                      // exactly if there is a residual
  AccumulationType<R>* scale;  // or null
  int64_t rows;
  int64_t rows_per_weight;
  int64_t packs;     // of a row
  double inverse_n;  // n counts elements, not components
  double eps;
};

// What is normalised, at component i; also stores it where a result wants it.
template <typename E>
XLA_FFI_KIT_HOST_DEVICE inline typename E::Values LoadSum(
    const WeightForwardRows<typename E::R>& args, int64_t i) {
  typename E::Values h = E::Load(args.x + i);
  if (args.residual != nullptr) {
    h = E::Sum(h, E::Load(args.residual + i));
    E::Store(h, args.sum + i);
  }
  return h;
}

// The weight of a row. Nearly always there is one alone, and a division would
// take longer than the rest of a short row.
template <typename Args>
XLA_FFI_KIT_HOST_DEVICE inline auto WeightOf(const Args& args, int64_t row,
                                             int64_t count) {
  return row < args.rows_per_weight
             ? args.weight
             : args.weight + row / args.rows_per_weight * count;
}

template <typename E>
struct WeightForwardInRegisters {
  using R = typename E::R;
  using A = typename E::A;
  using Args = WeightForwardRows<R>;
  static constexpr int kMaxThreads = kMaxThreadsInRegisters;

  typename E::Values h[kPacksPerThread];

  XLA_FFI_KIT_HOST_DEVICE double Sum(const Args& args, int64_t row,
                                     const RowThread& place) {
    const int64_t begin = row * args.packs * E::W;
    const int packs = static_cast<int>(args.packs);
    A sum = 0;
    for (int k = 0; k < kPacksPerThread; ++k) {
      const int pack = place.lane + k * place.lanes;
      if (pack < packs) {
        h[k] = LoadSum<E>(args, begin + pack * E::W);
        sum += PackPower(h[k]);
      }
    }
    return sum;
  }

  XLA_FFI_KIT_HOST_DEVICE void Finish(const Args& args, int64_t row,
                                      const RowThread& place,
                                      double power) const {
    const A scale = RowScale<A>(power, args.inverse_n, args.eps);
    const int64_t count = args.packs * E::W;
    const R* weight = WeightOf(args, row, count);
    R* out = args.y + row * count;
    const int packs = static_cast<int>(args.packs);
    for (int k = 0; k < kPacksPerThread; ++k) {
      const int pack = place.lane + k * place.lanes;
      if (pack < packs) {
        const int i = pack * E::W;
        E::Store(E::Normalized(h[k], scale, E::Load(weight + i)), out + i);
      }
    }
    if (args.scale != nullptr && place.lane == 0) args.scale[row] = scale;
  }
};

template <typename E>
struct WeightForwardWide {
  using R = typename E::R;
  using A = typename E::A;
  using Args = WeightForwardRows<R>;
  static constexpr int kMaxThreads = 1024;

  XLA_FFI_KIT_HOST_DEVICE double Sum(const Args& args, int64_t row,
                                     const RowThread& place) const {
    const int64_t count = args.packs * E::W;
    auto* kept = static_cast<R*>(place.shared);
    double sum = 0;
    int slot = place.slot;
    XLA_FFI_KIT_UNROLL(4)
    for (int64_t p = place.lane; p < args.packs;
         p += place.lanes, slot += place.slot_step) {
      const auto h = LoadSum<E>(args, row * count + p * E::W);
      if (kept != nullptr) E::Store(h, kept + slot * E::W);
      sum += static_cast<double>(PackPower(h));
    }
    return sum;
  }

  XLA_FFI_KIT_HOST_DEVICE void Finish(const Args& args, int64_t row,
                                      const RowThread& place,
                                      double power) const {
    const A scale = RowScale<A>(power, args.inverse_n, args.eps);
    const int64_t count = args.packs * E::W;
    const R* weight = WeightOf(args, row, count);
    // With a residual, x + residual is in sum by now, maybe in place of x.
    const R* h = (args.residual != nullptr ? args.sum : args.x) + row * count;
    const auto* kept = static_cast<const R*>(place.shared);
    R* out = args.y + row * count;
    // A thread uses what it kept itself, and so waits for nobody.
    int slot = place.slot;
    XLA_FFI_KIT_UNROLL(4)
    for (int64_t p = place.lane; p < args.packs;
         p += place.lanes, slot += place.slot_step) {
      const int64_t i = p * E::W;
      const auto of_row = E::Load(kept != nullptr ? kept + slot * E::W : h + i);
      E::Store(E::Normalized(of_row, scale, E::Load(weight + i)), out + i);
    }
    if (args.scale != nullptr && place.lane == 0) args.scale[row] = scale;
  }
};

}  // namespace xla_ffi_kit::rms_norm_internal

#endif  // XLA_FFI_OPS_RMS_NORM_RMS_NORM_WEIGHT_ROW_WORK_H_
