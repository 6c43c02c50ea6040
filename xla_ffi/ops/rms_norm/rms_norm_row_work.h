// What one thread does for a row, in the CUDA kernels of the forward.
//
// Two kinds of work (see core/cuda/rows.h): Registers, and Wide for longer
// rows. R is the type of components: a complex row is a real one of twice the
// length. W components are a pack. Plain C++ tests run this too.

#ifndef XLA_FFI_OPS_RMS_NORM_RMS_NORM_ROW_WORK_H_
#define XLA_FFI_OPS_RMS_NORM_RMS_NORM_ROW_WORK_H_

#include <cstdint>

#include "xla_ffi/core/accumulation_type.h"
#include "xla_ffi/core/cuda/pack.h"
#include "xla_ffi/core/cuda/rows.h"
#include "xla_ffi/core/host_device.h"
#include "xla_ffi/ops/rms_norm/rms_norm_pack.h"

namespace xla_ffi_kit::rms_norm_internal {

template <typename R>
struct ForwardRows {
  const R* x;
  R* y;                        // may be x
  AccumulationType<R>* scale;  // or null
  int64_t rows;
  int64_t packs;     // of a row
  double inverse_n;  // n counts elements, not components
  double eps;
};

template <typename R, int W>
struct ForwardInRegisters {
  using A = AccumulationType<R>;
  using Args = ForwardRows<R>;
  static constexpr int kMaxThreads = kMaxThreadsInRegisters;

  Pack<R, W> x[kPacksPerThread];

  XLA_FFI_KIT_HOST_DEVICE double Sum(const Args& args, int64_t row,
                                     const RowThread& place) {
    const R* in = args.x + row * args.packs * W;
    const int packs = static_cast<int>(args.packs);
    A sum = 0;
    for (int k = 0; k < kPacksPerThread; ++k) {
      const int pack = place.lane + k * place.lanes;
      if (pack < packs) {
        x[k] = LoadPack<W>(in + pack * W);
        sum += PackPower(x[k]);
      }
    }
    return sum;
  }

  XLA_FFI_KIT_HOST_DEVICE void Finish(const Args& args, int64_t row,
                                      const RowThread& place,
                                      double power) const {
    const A scale = RowScale<A>(power, args.inverse_n, args.eps);
    R* out = args.y + row * args.packs * W;
    const int packs = static_cast<int>(args.packs);
    for (int k = 0; k < kPacksPerThread; ++k) {
      const int pack = place.lane + k * place.lanes;
      if (pack < packs) StorePack(ScalePack(x[k], scale), out + pack * W);
    }
    if (args.scale != nullptr && place.lane == 0) args.scale[row] = scale;
  }
};

template <typename R, int W>
struct ForwardWide {
  using A = AccumulationType<R>;
  using Args = ForwardRows<R>;
  static constexpr int kMaxThreads = 1024;

  XLA_FFI_KIT_HOST_DEVICE double Sum(const Args& args, int64_t row,
                                     const RowThread& place) const {
    const R* in = args.x + row * args.packs * W;
    auto* kept = static_cast<R*>(place.shared);
    double sum = 0;
    int slot = place.slot;
    XLA_FFI_KIT_UNROLL(4)
    for (int64_t p = place.lane; p < args.packs;
         p += place.lanes, slot += place.slot_step) {
      const Pack<R, W> x = LoadPack<W>(in + p * W);
      if (kept != nullptr) StorePack(x, kept + slot * W);
      sum += static_cast<double>(PackPower(x));
    }
    return sum;
  }

  XLA_FFI_KIT_HOST_DEVICE void Finish(const Args& args, int64_t row,
                                      const RowThread& place,
                                      double power) const {
    const A scale = RowScale<A>(power, args.inverse_n, args.eps);
    const R* in = args.x + row * args.packs * W;
    R* out = args.y + row * args.packs * W;
    const auto* kept = static_cast<const R*>(place.shared);
    // A thread uses what it kept itself, and so waits for nobody.
    int slot = place.slot;
    XLA_FFI_KIT_UNROLL(4)
    for (int64_t p = place.lane; p < args.packs;
         p += place.lanes, slot += place.slot_step) {
      const Pack<R, W> x =
          LoadPack<W>(kept != nullptr ? kept + slot * W : in + p * W);
      StorePack(ScalePack(x, scale), out + p * W);
    }
    if (args.scale != nullptr && place.lane == 0) args.scale[row] = scale;
  }
};

}  // namespace xla_ffi_kit::rms_norm_internal

#endif  // XLA_FFI_OPS_RMS_NORM_RMS_NORM_ROW_WORK_H_
