// The arguments of the CUDA kernels of the backward, and what one thread does
// for rows of any kind: as in rms_norm_row_work.h; for dweight see
// core/cuda/row_sums.h, too.

#ifndef XLA_FFI_OPS_RMS_NORM_RMS_NORM_BACKWARD_ROW_WORK_H_
#define XLA_FFI_OPS_RMS_NORM_RMS_NORM_BACKWARD_ROW_WORK_H_

#include <cstdint>

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

// The row's scale, and scale * mean(Re(x * g)), from the sums of Re(x * g) and
// |x|^2.
template <typename E>
struct ScaleAndMean {
  using A = typename E::A;
  A scale, mean;

  XLA_FFI_KIT_HOST_DEVICE ScaleAndMean(const BackwardRows<E>& args, int64_t row,
                                       const TwoSums& sums)
      : scale(args.scale != nullptr ? args.scale[row]
                                    : ScaleOf(args, sums.second)),
        mean(static_cast<A>(scale * (sums.first * args.inverse_n))) {}
};

// dx, with or without a weight. The row is read twice.
template <typename E>
struct BackwardOfAnyRow {
  using Args = BackwardRows<E>;
  using R = typename E::R;

  // g = weight * ct of a pack at component i of the row.
  XLA_FFI_KIT_HOST_DEVICE static typename E::Wide Weighted(const R* ct,
                                                           const R* weight,
                                                           int64_t i) {
    const auto wide = E::Widened(E::Load(ct + i));
    if (weight == nullptr) return wide;
    return E::Product(wide, E::Widened(E::Load(weight + i)));
  }

  XLA_FFI_KIT_HOST_DEVICE static const R* Weight(const Args& args,
                                                 int64_t row) {
    return args.weight != nullptr ? WeightOf(args, row) : nullptr;
  }

  XLA_FFI_KIT_HOST_DEVICE TwoSums Sum(const Args& args, int64_t row,
                                      const RowThread& place) const {
    const int64_t begin = args.RowBegin(row);
    const R* weight = Weight(args, row);
    TwoSums sums = {};
    XLA_FFI_KIT_UNROLL(2)
    for (int64_t p = place.lane; p < args.packs; p += place.lanes) {
      const auto x = E::Widened(E::Load(args.x + begin + p * E::W));
      const auto g = Weighted(args.ct + begin, weight, p * E::W);
      sums +=
          {static_cast<double>(E::Dot(x, g)), static_cast<double>(E::Power(x))};
    }
    return sums;
  }

  XLA_FFI_KIT_HOST_DEVICE void Finish(const Args& args, int64_t row,
                                      const RowThread& place,
                                      const TwoSums& sums) const {
    const ScaleAndMean<E> of_row(args, row, sums);
    const int64_t begin = args.RowBegin(row);
    const R* weight = Weight(args, row);
    XLA_FFI_KIT_UNROLL(2)
    for (int64_t p = place.lane; p < args.packs; p += place.lanes) {
      const int64_t i = begin + p * E::W;
      const auto g = Weighted(args.ct + begin, weight, p * E::W);
      auto dx = E::Backward(E::Widened(E::Load(args.x + i)), g, of_row.scale,
                            of_row.mean);
      if (args.ct_sum != nullptr) {
        dx = E::Sum(dx, E::Widened(E::Load(args.ct_sum + i)));
      }
      E::Store(E::Rounded(dx), args.dx + i);
    }
  }
};

// dweight: before dx overwrites x or ct.
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
