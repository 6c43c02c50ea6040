// What one thread does for a row, in the CUDA kernels of the backward: as in
// rms_norm_row_work.h.

#ifndef XLA_FFI_OPS_RMS_NORM_RMS_NORM_BACKWARD_ROW_WORK_H_
#define XLA_FFI_OPS_RMS_NORM_RMS_NORM_BACKWARD_ROW_WORK_H_

#include <cstdint>

#include "xla_ffi/core/accumulation_type.h"
#include "xla_ffi/core/cuda/pack.h"
#include "xla_ffi/core/cuda/rows.h"
#include "xla_ffi/core/host_device.h"
#include "xla_ffi/ops/rms_norm/rms_norm_pack.h"

namespace xla_ffi_kit::rms_norm_internal {

template <typename R>
struct BackwardRows {
  const AccumulationType<R>* scale;  // or null: that of x and eps
  const R* x;
  const R* ct;
  R* dx;  // may be x or ct
  int64_t rows;
  int64_t packs;     // of a row
  double inverse_n;  // n counts elements, not components
  double eps;
  AccumulationType<R> odd_sign;  // -1 for complex elements, else 1
};

// The row's scale, and scale * mean(Re(x * ct)); sums.first is that of |x|^2,
// sums.second that of Re(x * ct).
template <typename R>
struct ScaleAndMean {
  using A = AccumulationType<R>;
  A scale, mean;

  XLA_FFI_KIT_HOST_DEVICE ScaleAndMean(const BackwardRows<R>& args, int64_t row,
                                       const TwoSums& sums)
      : scale(args.scale != nullptr
                  ? args.scale[row]
                  : RowScale<A>(sums.first, args.inverse_n, args.eps)),
        mean(static_cast<A>(scale * (sums.second * args.inverse_n))) {}
};

template <typename R, int W>
struct BackwardInRegisters {
  using A = AccumulationType<R>;
  using Args = BackwardRows<R>;
  static constexpr int kMaxThreads = kMaxThreadsInRegisters;

  Pack<R, W> x[kPacksPerThread];
  Pack<R, W> ct[kPacksPerThread];

  XLA_FFI_KIT_HOST_DEVICE TwoSums Sum(const Args& args, int64_t row,
                                      const RowThread& place) {
    const int64_t begin = row * args.packs * W;
    const int packs = static_cast<int>(args.packs);
    A power = 0, dot = 0;
    for (int k = 0; k < kPacksPerThread; ++k) {
      const int pack = place.lane + k * place.lanes;
      if (pack < packs) {
        x[k] = LoadPack<W>(args.x + begin + pack * W);
        ct[k] = LoadPack<W>(args.ct + begin + pack * W);
        power += PackPower(x[k]);
        dot += PackDot(x[k], ct[k], pack * W, args.odd_sign);
      }
    }
    return {static_cast<double>(power), static_cast<double>(dot)};
  }

  XLA_FFI_KIT_HOST_DEVICE void Finish(const Args& args, int64_t row,
                                      const RowThread& place,
                                      const TwoSums& sums) const {
    const ScaleAndMean<R> of_row(args, row, sums);
    R* out = args.dx + row * args.packs * W;
    const int packs = static_cast<int>(args.packs);
    for (int k = 0; k < kPacksPerThread; ++k) {
      const int pack = place.lane + k * place.lanes;
      if (pack < packs) {
        StorePack(GradientPack(x[k], ct[k], pack * W, args.odd_sign,
                               of_row.scale, of_row.mean),
                  out + pack * W);
      }
    }
  }
};

template <typename R, int W>
struct BackwardWide {
  using A = AccumulationType<R>;
  using Args = BackwardRows<R>;
  static constexpr int kMaxThreads = 1024;

  XLA_FFI_KIT_HOST_DEVICE TwoSums Sum(const Args& args, int64_t row,
                                      const RowThread& place) const {
    const int64_t count = args.packs * W;
    const R* x_row = args.x + row * count;
    const R* ct_row = args.ct + row * count;
    auto* kept = static_cast<R*>(place.shared);  // x, then ct
    TwoSums sums = {0, 0};
    int slot = place.slot;
    XLA_FFI_KIT_UNROLL(2)
    for (int64_t p = place.lane; p < args.packs;
         p += place.lanes, slot += place.slot_step) {
      const int64_t i = p * W;
      const Pack<R, W> x = LoadPack<W>(x_row + i);
      const Pack<R, W> ct = LoadPack<W>(ct_row + i);
      if (kept != nullptr) {
        StorePack(x, kept + slot * W);
        StorePack(ct, kept + (place.slots + slot) * W);
      }
      sums += {static_cast<double>(PackPower(x)),
               static_cast<double>(PackDot(x, ct, i, args.odd_sign))};
    }
    return sums;
  }

  XLA_FFI_KIT_HOST_DEVICE void Finish(const Args& args, int64_t row,
                                      const RowThread& place,
                                      const TwoSums& sums) const {
    const ScaleAndMean<R> of_row(args, row, sums);
    const int64_t count = args.packs * W;
    const auto* kept = static_cast<const R*>(place.shared);
    const R* x_row = args.x + row * count;
    const R* ct_row = args.ct + row * count;
    R* out = args.dx + row * count;
    // A thread uses what it kept itself, and so waits for nobody.
    int slot = place.slot;
    XLA_FFI_KIT_UNROLL(2)
    for (int64_t p = place.lane; p < args.packs;
         p += place.lanes, slot += place.slot_step) {
      const int64_t i = p * W;
      const Pack<R, W> x =
          LoadPack<W>(kept != nullptr ? kept + slot * W : x_row + i);
      const Pack<R, W> ct = LoadPack<W>(
          kept != nullptr ? kept + (place.slots + slot) * W : ct_row + i);
      StorePack(
          GradientPack(x, ct, i, args.odd_sign, of_row.scale, of_row.mean),
          out + i);
    }
  }
};

}  // namespace xla_ffi_kit::rms_norm_internal

#endif  // XLA_FFI_OPS_RMS_NORM_RMS_NORM_BACKWARD_ROW_WORK_H_
