// What one thread does, in the CUDA kernels of the backward with a weight: see
// rms_norm_row_work.h and core/cuda/row_sums.h. E is an Elements.

#ifndef XLA_FFI_OPS_RMS_NORM_RMS_NORM_WEIGHT_BACKWARD_ROW_WORK_H_
#define XLA_FFI_OPS_RMS_NORM_RMS_NORM_WEIGHT_BACKWARD_ROW_WORK_H_

#include <cstdint>

#include "xla_ffi/core/accumulation_type.h"
#include "xla_ffi/core/cuda/pack.h"
#include "xla_ffi/core/cuda/rows.h"
#include "xla_ffi/core/host_device.h"
#include "xla_ffi/ops/rms_norm/rms_norm_elements.h"
#include "xla_ffi/ops/rms_norm/rms_norm_weight_row_work.h"

namespace xla_ffi_kit::rms_norm_internal {

// dx may be x, ct or ct_sum.
template <typename R>
struct WeightBackwardRows {
  const AccumulationType<R>* scale;
  const R* x;
  const R* weight;
  const R* ct;
  const R* ct_sum;  // or null: zeros
  R* dx;
  AccumulationType<R>* sums;  // of the weight's gradient; see RowSums
  int64_t rows;
  int64_t rows_per_weight;
  int64_t packs;     // of a row
  double inverse_n;  // n counts elements, not components
};

// scale * mean(Re(x * weight * ct)).
template <typename R>
XLA_FFI_KIT_HOST_DEVICE inline AccumulationType<R> RowMean(
    const WeightBackwardRows<R>& args, AccumulationType<R> scale, double dot) {
  return static_cast<AccumulationType<R>>(scale * (dot * args.inverse_n));
}

template <typename E>
XLA_FFI_KIT_HOST_DEVICE inline typename E::Values LoadSumCotangent(
    const WeightBackwardRows<typename E::R>& args, int64_t i) {
  return args.ct_sum != nullptr ? E::Load(args.ct_sum + i) : E::Zeros();
}

// dx and the weight's gradient; x and ct are read once.
template <typename E>
struct WeightBackwardInRegisters {
  using R = typename E::R;
  using A = typename E::A;
  using Args = WeightBackwardRows<R>;
  static constexpr int kMaxThreads = kMaxThreadsInRegisters;
  // Sums of 16-bit numbers take twice their registers, and leave none for the
  // next row.
  static constexpr bool kFetchesAhead = sizeof(R) >= 4;
  static constexpr int kNext = kFetchesAhead ? kPacksPerThread : 1;

  typename E::Values x[kPacksPerThread], ct[kPacksPerThread];
  typename E::Values next_x[kNext], next_ct[kNext];
  typename E::Wide dweight[kPacksPerThread] = {};

  XLA_FFI_KIT_HOST_DEVICE void Fetch(const Args& args, int64_t row,
                                     const RowThread& place) {
    if constexpr (kFetchesAhead) {
      const int64_t begin = row * args.packs * E::W;
      ForEachPackOf(args, place, [&](int k, int i) {
        next_x[k] = E::Load(args.x + begin + i);
        next_ct[k] = E::Load(args.ct + begin + i);
      });
    }
  }

  XLA_FFI_KIT_HOST_DEVICE double Sum(const Args& args, int64_t row,
                                     const RowThread& place) {
    const int64_t begin = row * args.packs * E::W;
    const R* weight = WeightOf(args, row, args.packs * E::W);
    A sum = 0;
    ForEachPackOf(args, place, [&](int k, int i) {
      x[k] = kFetchesAhead ? next_x[k % kNext] : E::Load(args.x + begin + i);
      ct[k] = kFetchesAhead ? next_ct[k % kNext] : E::Load(args.ct + begin + i);
      sum += E::Dot(x[k], E::Load(weight + i), ct[k]);
    });
    return sum;
  }

  XLA_FFI_KIT_HOST_DEVICE void Finish(const Args& args, int64_t row,
                                      const RowThread& place, double dot) {
    const A scale = args.scale[row], mean = RowMean(args, scale, dot);
    const int64_t begin = row * args.packs * E::W;
    const R* weight = WeightOf(args, row, args.packs * E::W);
    ForEachPackOf(args, place, [&](int k, int i) {
      const auto ct_sum = LoadSumCotangent<E>(args, begin + i);
      E::Store(
          E::Gradient(x[k], E::Load(weight + i), ct[k], ct_sum, scale, mean),
          args.dx + begin + i);
      const auto terms = E::WeightGradient(x[k], scale, ct[k]);
      for (int j = 0; j < E::W; ++j) dweight[k].values[j] += terms.values[j];
    });
  }

  XLA_FFI_KIT_HOST_DEVICE void StoreSums(const Args& args,
                                         const RowThread& place, A* out) {
    ForEachPackOf(args, place, [&](int k, int i) {
      for (int j = 0; j < E::W; ++j) {
        out[i + j] = dweight[k].values[j];
        dweight[k].values[j] = 0;
      }
    });
  }

 private:
  // fn(k, i) for each of the thread's packs, number k, at component i.
  template <typename Fn>
  XLA_FFI_KIT_HOST_DEVICE static void ForEachPackOf(const Args& args,
                                                    const RowThread& place,
                                                    const Fn& fn) {
    const int packs = static_cast<int>(args.packs);
    for (int k = 0; k < kPacksPerThread; ++k) {
      const int pack = place.lane + k * place.lanes;
      if (pack < packs) fn(k, pack * E::W);
    }
  }
};

// dx alone, for rows too long for registers.
template <typename E>
struct WeightBackwardWide {
  using R = typename E::R;
  using A = typename E::A;
  using Args = WeightBackwardRows<R>;
  static constexpr int kMaxThreads = 1024;

  XLA_FFI_KIT_HOST_DEVICE double Sum(const Args& args, int64_t row,
                                     const RowThread& place) const {
    const int64_t count = args.packs * E::W;
    const R* weight = WeightOf(args, row, count);
    auto* kept = static_cast<R*>(place.shared);  // x, then ct
    double sum = 0;
    int slot = place.slot;
    XLA_FFI_KIT_UNROLL(2)
    for (int64_t p = place.lane; p < args.packs;
         p += place.lanes, slot += place.slot_step) {
      const int64_t i = p * E::W;
      const auto x = E::Load(args.x + row * count + i);
      const auto ct = E::Load(args.ct + row * count + i);
      if (kept != nullptr) {
        E::Store(x, kept + slot * E::W);
        E::Store(ct, kept + (place.slots + slot) * E::W);
      }
      sum += static_cast<double>(E::Dot(x, E::Load(weight + i), ct));
    }
    return sum;
  }

  XLA_FFI_KIT_HOST_DEVICE void Finish(const Args& args, int64_t row,
                                      const RowThread& place,
                                      double dot) const {
    const A scale = args.scale[row], mean = RowMean(args, scale, dot);
    const int64_t count = args.packs * E::W, begin = row * count;
    const R* weight = WeightOf(args, row, count);
    const auto* kept = static_cast<const R*>(place.shared);
    // A thread uses what it kept itself, and so waits for nobody.
    int slot = place.slot;
    XLA_FFI_KIT_UNROLL(2)
    for (int64_t p = place.lane; p < args.packs;
         p += place.lanes, slot += place.slot_step) {
      const int64_t i = p * E::W;
      const auto x =
          E::Load(kept != nullptr ? kept + slot * E::W : args.x + begin + i);
      const auto ct =
          E::Load(kept != nullptr ? kept + (place.slots + slot) * E::W
                                  : args.ct + begin + i);
      E::Store(E::Gradient(x, E::Load(weight + i), ct,
                           LoadSumCotangent<E>(args, begin + i), scale, mean),
               args.dx + begin + i);
    }
  }
};

// The weight's gradient alone, for such rows: before dx overwrites x or ct.
template <typename E>
struct WeightGradientColumns {
  using R = typename E::R;
  using A = typename E::A;
  using Args = WeightBackwardRows<R>;

  double sums[E::W] = {};

  XLA_FFI_KIT_HOST_DEVICE void Add(const Args& args, int64_t row,
                                   int64_t pack) {
    const int64_t i = (row * args.packs + pack) * E::W;
    const auto terms = E::WeightGradient(E::Load(args.x + i), args.scale[row],
                                         E::Load(args.ct + i));
    for (int j = 0; j < E::W; ++j) {
      sums[j] += static_cast<double>(terms.values[j]);
    }
  }

  XLA_FFI_KIT_HOST_DEVICE void Store(A* out, int64_t pack) const {
    for (int j = 0; j < E::W; ++j) {
      out[pack * E::W + j] = static_cast<A>(sums[j]);
    }
  }
};

}  // namespace xla_ffi_kit::rms_norm_internal

#endif  // XLA_FFI_OPS_RMS_NORM_RMS_NORM_WEIGHT_BACKWARD_ROW_WORK_H_
