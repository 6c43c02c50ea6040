// The arguments of the CUDA kernels of the forward, and what one thread does
// for a row of any kind (see core/cuda/rows.h). E is an Elements: a row is
// `packs` packs of E::W components. Plain C++ tests run this too.

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

// The forward of any row, one pack after the other: of what the kernels of
// rms_norm_forward_kernels.h do not take. The row is read twice.
template <typename E>
struct ForwardOfAnyRow {
  using Args = ForwardRows<E>;
  using A = typename E::A;

  // h at component i; also stores it where a result wants it.
  XLA_FFI_KIT_HOST_DEVICE static typename E::Values LoadSum(const Args& args,
                                                            int64_t i) {
    typename E::Values h = E::Load(args.x + i);
    if (args.residual != nullptr) {
      const auto residual = E::Widened(E::Load(args.residual + i));
      h = E::Rounded(E::Sum(E::Widened(h), residual));
      E::Store(h, args.sum + i);
    }
    return h;
  }

  XLA_FFI_KIT_HOST_DEVICE double Sum(const Args& args, int64_t row,
                                     const RowThread& place) const {
    const int64_t begin = args.RowBegin(row);
    double sum = 0;
    XLA_FFI_KIT_UNROLL(2)
    for (int64_t p = place.lane; p < args.packs; p += place.lanes) {
      sum += static_cast<double>(
          E::Power(E::Widened(LoadSum(args, begin + p * E::W))));
    }
    return sum;
  }

  XLA_FFI_KIT_HOST_DEVICE void Finish(const Args& args, int64_t row,
                                      const RowThread& place,
                                      double power) const {
    const A scale = ScaleOf(args, power);
    const int64_t begin = args.RowBegin(row);
    const auto* weight = args.weight ? WeightOf(args, row) : nullptr;
    XLA_FFI_KIT_UNROLL(2)
    for (int64_t p = place.lane; p < args.packs; p += place.lanes) {
      const int64_t i = p * E::W;
      const auto h = E::Widened(E::Load(args.Normalized() + begin + i));
      auto y = E::Scaled(h, scale);
      // In this order: h * weight may overflow.
      if (weight != nullptr) {
        y = E::Product(y, E::Widened(E::Load(weight + i)));
      }
      E::Store(E::Rounded(y), args.y + begin + i);
    }
    if (args.scale != nullptr && place.lane == 0) args.scale[row] = scale;
  }
};

}  // namespace xla_ffi_kit::rms_norm_internal

#endif  // XLA_FFI_OPS_RMS_NORM_RMS_NORM_ROW_WORK_H_
