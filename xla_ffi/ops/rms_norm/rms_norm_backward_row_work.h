// What one thread does for a row, in the CUDA kernels of the backward: as in
// rms_norm_row_work.h; for dweight see core/cuda/row_sums.h, too.

#ifndef XLA_FFI_OPS_RMS_NORM_RMS_NORM_BACKWARD_ROW_WORK_H_
#define XLA_FFI_OPS_RMS_NORM_RMS_NORM_BACKWARD_ROW_WORK_H_

#include <cstdint>
#include <type_traits>

#include "xla_ffi/core/cuda/rows.h"
#include "xla_ffi/core/host_device.h"
#include "xla_ffi/ops/rms_norm/rms_norm_elements.h"
#include "xla_ffi/ops/rms_norm/rms_norm_row_work.h"

namespace xla_ffi_kit::rms_norm_internal {

// RmsNormBackwardArgs in components.
template <typename E>
struct BackwardRows {
  using R = typename E::R;
  using A = typename E::A;

  const R* x;
  const R* ct;
  const A* scale;   // null: from x and eps; only without a weight
  const R* weight;  // or null
  const R* ct_sum;  // or null: zeros; only with a weight
  R* dx;            // may be x, ct or ct_sum
  A* sums;          // of dweight; see RowSums
  int64_t rows;
  int64_t rows_per_weight;
  int64_t packs;     // of a row
  double inverse_n;  // n counts elements, not components
  double eps;

  XLA_FFI_KIT_HOST_DEVICE int64_t RowBegin(int64_t row) const {
    return row * packs * E::W;
  }
};

// g = weight * ct. The pack begins at component i of the row's `weight`.
template <typename E, bool kHasWeight>
XLA_FFI_KIT_HOST_DEVICE inline typename E::Wide Weighted(
    const typename E::Values& ct, const typename E::R* weight, int64_t i) {
  if constexpr (kHasWeight) {
    return E::Product(E::Widened(ct), E::Widened(E::Load(weight + i)));
  }
  return E::Widened(ct);
}

// Sums over a row: of Re(x * g), and of |x|^2 where the scale may be unknown.
template <typename E, bool kHasWeight>
struct BackwardSums {
  using type = std::conditional_t<kHasWeight, double, TwoSums>;

  // The terms of a pack.
  XLA_FFI_KIT_HOST_DEVICE static type Of(const typename E::Values& x,
                                         const typename E::Wide& g) {
    if constexpr (kHasWeight) {
      return static_cast<double>(E::Dot(E::Widened(x), g));
    } else {
      return {static_cast<double>(E::Dot(E::Widened(x), g)),
              static_cast<double>(E::Power(E::Widened(x)))};
    }
  }
};

// The row's scale, and scale * mean(Re(x * g)), from its sums.
template <typename E>
struct ScaleAndMean {
  using A = typename E::A;
  A scale, mean;

  XLA_FFI_KIT_HOST_DEVICE ScaleAndMean(const BackwardRows<E>& args, int64_t row,
                                       const TwoSums& sums)
      : scale(args.scale != nullptr ? args.scale[row]
                                    : ScaleOf(args, sums.second)),
        mean(static_cast<A>(scale * (sums.first * args.inverse_n))) {}
  XLA_FFI_KIT_HOST_DEVICE ScaleAndMean(const BackwardRows<E>& args, int64_t row,
                                       double dot)
      : scale(args.scale[row]),
        mean(static_cast<A>(scale * (dot * args.inverse_n))) {}
};

// dx of a pack that begins at component i of all rows.
template <typename E, bool kHasWeight>
XLA_FFI_KIT_HOST_DEVICE inline typename E::Values BackwardPack(
    const BackwardRows<E>& args, const ScaleAndMean<E>& of_row,
    const typename E::Values& x, const typename E::Wide& g, int64_t i) {
  auto dx = E::Backward(E::Widened(x), g, of_row.scale, of_row.mean);
  if constexpr (kHasWeight) {
    if (args.ct_sum != nullptr) {
      dx = E::Sum(dx, E::Widened(E::Load(args.ct_sum + i)));
    }
  }
  return E::Rounded(dx);
}

// Calls fn(k, i) for each of a thread's packs of a row in registers, number k,
// at component i of the row.
template <typename E, typename Fn>
XLA_FFI_KIT_HOST_DEVICE inline void ForEachPackOf(const BackwardRows<E>& args,
                                                  const RowThread& place,
                                                  const Fn& fn) {
  const int packs = static_cast<int>(args.packs);
  for (int k = 0; k < kPacksPerThread; ++k) {
    const int pack = place.lane + k * place.lanes;
    if (pack < packs) fn(k, pack * E::W);
  }
}

// dx without a weight.
template <typename E>
struct BackwardInRegisters {
  using Args = BackwardRows<E>;
  using A = typename E::A;
  static constexpr int kMaxThreads = kMaxThreadsInRegisters;

  typename E::Values x[kPacksPerThread], ct[kPacksPerThread];

  XLA_FFI_KIT_HOST_DEVICE TwoSums Sum(const Args& args, int64_t row,
                                      const RowThread& place) {
    const int64_t begin = args.RowBegin(row);
    A dot = 0, power = 0;
    ForEachPackOf(args, place, [&](int k, int i) {
      x[k] = E::Load(args.x + begin + i);
      ct[k] = E::Load(args.ct + begin + i);
      dot += E::Dot(E::Widened(x[k]), E::Widened(ct[k]));
      power += E::Power(E::Widened(x[k]));
    });
    return {static_cast<double>(dot), static_cast<double>(power)};
  }

  XLA_FFI_KIT_HOST_DEVICE void Finish(const Args& args, int64_t row,
                                      const RowThread& place,
                                      const TwoSums& sums) const {
    const ScaleAndMean<E> of_row(args, row, sums);
    const int64_t begin = args.RowBegin(row);
    ForEachPackOf(args, place, [&](int k, int i) {
      E::Store(BackwardPack<E, false>(args, of_row, x[k], E::Widened(ct[k]),
                                      begin + i),
               args.dx + begin + i);
    });
  }
};

// dx of rows too long for registers.
template <typename E, bool kHasWeight>
struct BackwardWide {
  using Args = BackwardRows<E>;
  using R = typename E::R;
  using Sums = BackwardSums<E, kHasWeight>;
  static constexpr int kMaxThreads = 1024;

  XLA_FFI_KIT_HOST_DEVICE typename Sums::type Sum(
      const Args& args, int64_t row, const RowThread& place) const {
    const int64_t begin = args.RowBegin(row);
    const R* weight = kHasWeight ? WeightOf(args, row) : nullptr;
    auto* kept = static_cast<R*>(place.shared);  // x, then ct
    typename Sums::type sums = {};
    int slot = place.slot;
    XLA_FFI_KIT_UNROLL(2)
    for (int64_t p = place.lane; p < args.packs;
         p += place.lanes, slot += place.slot_step) {
      const int64_t i = p * E::W;
      const auto x = E::Load(args.x + begin + i);
      const auto ct = E::Load(args.ct + begin + i);
      if (kept != nullptr) {
        E::Store(x, kept + slot * E::W);
        E::Store(ct, kept + (place.slots + slot) * E::W);
      }
      sums += Sums::Of(x, Weighted<E, kHasWeight>(ct, weight, i));
    }
    return sums;
  }

  XLA_FFI_KIT_HOST_DEVICE void Finish(const Args& args, int64_t row,
                                      const RowThread& place,
                                      const typename Sums::type& sums) const {
    const ScaleAndMean<E> of_row(args, row, sums);
    const int64_t begin = args.RowBegin(row);
    const R* weight = kHasWeight ? WeightOf(args, row) : nullptr;
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
      const auto g = Weighted<E, kHasWeight>(ct, weight, i);
      E::Store(BackwardPack<E, kHasWeight>(args, of_row, x, g, begin + i),
               args.dx + begin + i);
    }
  }
};

// dx and dweight; x and ct are read once.
template <typename E>
struct WeightBackwardInRegisters {
  using Args = BackwardRows<E>;
  using R = typename E::R;
  using A = typename E::A;
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
      const int64_t begin = args.RowBegin(row);
      ForEachPackOf(args, place, [&](int k, int i) {
        next_x[k] = E::Load(args.x + begin + i);
        next_ct[k] = E::Load(args.ct + begin + i);
      });
    }
  }

  XLA_FFI_KIT_HOST_DEVICE double Sum(const Args& args, int64_t row,
                                     const RowThread& place) {
    const int64_t begin = args.RowBegin(row);
    const R* weight = WeightOf(args, row);
    A sum = 0;
    ForEachPackOf(args, place, [&](int k, int i) {
      x[k] = kFetchesAhead ? next_x[k % kNext] : E::Load(args.x + begin + i);
      ct[k] = kFetchesAhead ? next_ct[k % kNext] : E::Load(args.ct + begin + i);
      sum += E::Dot(E::Widened(x[k]), Weighted<E, true>(ct[k], weight, i));
    });
    return sum;
  }

  XLA_FFI_KIT_HOST_DEVICE void Finish(const Args& args, int64_t row,
                                      const RowThread& place, double dot) {
    const ScaleAndMean<E> of_row(args, row, dot);
    const int64_t begin = args.RowBegin(row);
    const R* weight = WeightOf(args, row);
    ForEachPackOf(args, place, [&](int k, int i) {
      const auto g = Weighted<E, true>(ct[k], weight, i);
      E::Store(BackwardPack<E, true>(args, of_row, x[k], g, begin + i),
               args.dx + begin + i);
      const auto terms = E::Product(E::Scaled(E::Widened(x[k]), of_row.scale),
                                    E::Widened(ct[k]));
      dweight[k] = E::Sum(dweight[k], terms);
    });
  }

  XLA_FFI_KIT_HOST_DEVICE void StoreSums(const Args& args,
                                         const RowThread& place, A* out) {
    ForEachPackOf(args, place, [&](int k, int i) {
      for (int j = 0; j < E::W; ++j) out[i + j] = dweight[k].values[j];
      dweight[k] = {};
    });
  }
};

// dweight of rows too long for registers: before dx overwrites x or ct.
template <typename E>
struct WeightBackwardColumns {
  using Args = BackwardRows<E>;
  using A = typename E::A;

  double sums[E::W] = {};

  XLA_FFI_KIT_HOST_DEVICE void Add(const Args& args, int64_t row,
                                   int64_t pack) {
    const int64_t i = args.RowBegin(row) + pack * E::W;
    const auto y = E::Scaled(E::Widened(E::Load(args.x + i)), args.scale[row]);
    const auto terms = E::Product(y, E::Widened(E::Load(args.ct + i)));
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

#endif  // XLA_FFI_OPS_RMS_NORM_RMS_NORM_BACKWARD_ROW_WORK_H_
