// The handlers' operands, results and names, which are the same on every
// platform: what a platform adds is its context and the function that computes.

#ifndef XLA_FFI_OPS_RMS_NORM_RMS_NORM_CALLS_H_
#define XLA_FFI_OPS_RMS_NORM_RMS_NORM_CALLS_H_

#include <string_view>
#include <utility>

#include "xla/ffi/api/ffi.h"
#include "xla_ffi/core/attributes.h"
#include "xla_ffi/ops/rms_norm/rms_norm_checks.h"

namespace xla_ffi_kit::rms_norm_internal {

using AnyResult = ffi::Result<ffi::AnyBuffer>;

// Handlers that call kRun(context..., attributes, ForwardCall).
template <auto kRun, typename... Context>
struct ForwardHandlers {
  static ffi::Error Norm(Context... context, ffi::AnyBuffer x, AnyResult y,
                         ffi::Dictionary attributes) {
    return kRun(context..., attributes,
                {"xla_ffi_kit.rms_norm", x, {}, {}, *y, {}, {}});
  }

  static ffi::Error NormFwd(Context... context, ffi::AnyBuffer x, AnyResult y,
                            AnyResult scale, ffi::Dictionary attributes) {
    return kRun(context..., attributes,
                {"xla_ffi_kit.rms_norm_fwd", x, {}, {}, *y, {}, *scale});
  }

  static ffi::Error Weight(Context... context, ffi::AnyBuffer x,
                           ffi::AnyBuffer weight, AnyResult y,
                           ffi::Dictionary attributes) {
    return kRun(context..., attributes,
                {"xla_ffi_kit.rms_norm_weight", x, weight, {}, *y, {}, {}});
  }

  static ffi::Error WeightFwd(Context... context, ffi::AnyBuffer x,
                              ffi::AnyBuffer weight, AnyResult y,
                              AnyResult scale, ffi::Dictionary attributes) {
    return kRun(
        context..., attributes,
        {"xla_ffi_kit.rms_norm_weight_fwd", x, weight, {}, *y, {}, *scale});
  }

  static ffi::Error Block(Context... context, ffi::AnyBuffer x,
                          ffi::AnyBuffer weight, AnyResult y,
                          ffi::Dictionary attributes) {
    return kRun(
        context..., attributes,
        {"xla_ffi_kit.rms_norm_block", x, weight, {}, *y, {}, {}, true});
  }

  static ffi::Error BlockFwd(Context... context, ffi::AnyBuffer x,
                             ffi::AnyBuffer weight, AnyResult y,
                             AnyResult scale, ffi::Dictionary attributes) {
    return kRun(context..., attributes,
                {"xla_ffi_kit.rms_norm_block_fwd",
                 x,
                 weight,
                 {},
                 *y,
                 {},
                 *scale,
                 true});
  }

  static ffi::Error WeightResidual(Context... context, ffi::AnyBuffer x,
                                   ffi::AnyBuffer weight,
                                   ffi::AnyBuffer residual, AnyResult y,
                                   AnyResult sum, ffi::Dictionary attributes) {
    constexpr std::string_view kOp = "xla_ffi_kit.rms_norm_weight_residual";
    return kRun(context..., attributes,
                {kOp, x, weight, residual, *y, *sum, {}});
  }

  static ffi::Error WeightResidualFwd(Context... context, ffi::AnyBuffer x,
                                      ffi::AnyBuffer weight,
                                      ffi::AnyBuffer residual, AnyResult y,
                                      AnyResult sum, AnyResult scale,
                                      ffi::Dictionary attributes) {
    constexpr std::string_view kOp = "xla_ffi_kit.rms_norm_weight_residual_fwd";
    return kRun(context..., attributes,
                {kOp, x, weight, residual, *y, *sum, *scale});
  }
};

// Handlers that call kRun(context..., BackwardCall), their attributes checked.
template <auto kRun, typename... Context>
struct BackwardHandlers {
  static ffi::Error Grad(Context... context, ffi::AnyBuffer x,
                         ffi::AnyBuffer ct, AnyResult dx,
                         ffi::Dictionary attributes) {
    constexpr std::string_view kOp = "xla_ffi_kit.rms_norm_grad";
    const ffi::ErrorOr<double> eps = GetEps(kOp, attributes);
    if (eps.has_error()) return eps.error();
    return kRun(context..., {kOp, {}, x, {}, ct, {}, *dx, {}, *eps});
  }

  static ffi::Error Bwd(Context... context, ffi::AnyBuffer scale,
                        ffi::AnyBuffer x, ffi::AnyBuffer ct, AnyResult dx,
                        ffi::Dictionary attributes) {
    constexpr std::string_view kOp = "xla_ffi_kit.rms_norm_bwd";
    ffi::Error e = CheckNoAttributes(kOp, attributes);
    if (e.failure()) return e;
    return kRun(context..., {kOp, scale, x, {}, ct, {}, *dx, {}, /*eps=*/0});
  }

  static ffi::Error WeightBwd(Context... context, ffi::AnyBuffer scale,
                              ffi::AnyBuffer x, ffi::AnyBuffer weight,
                              ffi::AnyBuffer ct, AnyResult dx,
                              AnyResult dweight, ffi::Dictionary attributes) {
    constexpr std::string_view kOp = "xla_ffi_kit.rms_norm_weight_bwd";
    ffi::Error e = CheckNoAttributes(kOp, attributes);
    if (e.failure()) return e;
    return kRun(context...,
                {kOp, scale, x, weight, ct, {}, *dx, *dweight, /*eps=*/0});
  }

  static ffi::Error WeightResidualBwd(Context... context, ffi::AnyBuffer scale,
                                      ffi::AnyBuffer x, ffi::AnyBuffer weight,
                                      ffi::AnyBuffer ct, ffi::AnyBuffer ct_sum,
                                      AnyResult dx, AnyResult dweight,
                                      ffi::Dictionary attributes) {
    constexpr std::string_view kOp = "xla_ffi_kit.rms_norm_weight_residual_bwd";
    ffi::Error e = CheckNoAttributes(kOp, attributes);
    if (e.failure()) return e;
    return kRun(context...,
                {kOp, scale, x, weight, ct, ct_sum, *dx, *dweight, /*eps=*/0});
  }
};

// What these handlers bind after their context: operands and results of any
// dtype and shape, and the attributes.
template <int kOperands, int kResults, typename Binding>
auto BindBuffers(Binding binding) {
  if constexpr (kOperands > 0) {
    return BindBuffers<kOperands - 1, kResults>(
        std::move(binding).template Arg<ffi::AnyBuffer>());
  } else if constexpr (kResults > 0) {
    return BindBuffers<0, kResults - 1>(
        std::move(binding).template Ret<ffi::AnyBuffer>());
  } else {
    return std::move(binding).Attrs();
  }
}

}  // namespace xla_ffi_kit::rms_norm_internal

#endif  // XLA_FFI_OPS_RMS_NORM_RMS_NORM_CALLS_H_
