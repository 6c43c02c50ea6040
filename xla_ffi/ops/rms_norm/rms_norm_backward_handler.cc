#include <cstdint>
#include <string_view>

#include "xla/ffi/api/ffi.h"
#include "xla_ffi/core/accumulation_type.h"
#include "xla_ffi/core/attributes.h"
#include "xla_ffi/core/batch_shape.h"
#include "xla_ffi/core/checks.h"
#include "xla_ffi/core/dtype_dispatch.h"
#include "xla_ffi/core/output_pages.h"
#include "xla_ffi/ops/rms_norm/rms_norm_backward.h"
#include "xla_ffi/ops/rms_norm/rms_norm_checks.h"
#include "xla_ffi/ops/rms_norm/rms_norm_handler.h"
#include "xla_ffi/ops/rms_norm/rms_norm_parallel.h"

namespace xla_ffi_kit {
namespace {

using namespace rms_norm_internal;  // NOLINT: the handlers' own helpers

using ResultBuffer = ffi::Result<ffi::AnyBuffer>;

// dx and dweight, one weight after the other.
template <typename T>
void RunWithWeights(ffi::ThreadPool& pool, const RmsNormBackward<T>& args,
                    int64_t weights, T* dweight) {
  for (int64_t i = 0; i < weights; ++i) {
    const int64_t row = i * args.rows_per_weight;
    RmsNormBackward<T> of_weight = args;
    of_weight.scale += row;
    of_weight.x += row * args.n;
    of_weight.weight += i * args.n;
    of_weight.ct += row * args.n;
    if (args.ct_sum != nullptr) of_weight.ct_sum += row * args.n;
    of_weight.dx += row * args.n;
    ParallelRmsNormWeightGradient(pool, of_weight, args.rows_per_weight,
                                  dweight + i * args.n);
  }
}

ffi::Error Backward(ffi::ThreadPool& pool, const BackwardCall& call) {
  if (ffi::Error e = CheckBackward(call); e.failure()) return e;
  return DispatchDtype(
      FloatTypes(), call.x.element_type(), {call.operation, "operand x"},
      [&](auto tag) -> ffi::Error {
        using T = typename decltype(tag)::type;
        ffi::Error e = CheckScale<T>({call.operation, "operand scale"},
                                     call.scale, call.x);
        if (e.failure()) return e;
        const BatchShape shape = SplitLastAxis(call.x.dimensions());
        RmsNormBackward<T> args;
        args.scale = Data<const AccumulationType<T>>(call.scale);
        args.x = static_cast<const T*>(call.x.untyped_data());
        args.weight = Data<const T>(call.weight);
        args.ct = static_cast<const T*>(call.ct.untyped_data());
        args.ct_sum = Data<const T>(call.ct_sum);
        args.dx = static_cast<T*>(call.dx.untyped_data());
        args.n = shape.length;
        args.rows_per_weight = RowsPerWeight(shape.rows, call.weight);
        args.eps = call.eps;
        AdviseHugePages(args.dx, call.dx.size_bytes());
        if (call.dweight) {
          RunWithWeights(pool, args,
                         SplitLastAxis(call.weight->dimensions()).rows,
                         Data<T>(call.dweight));
        } else {
          ParallelRmsNormGradient(pool, args, shape.rows);
        }
        return {};
      });
}

ffi::Error GradImpl(ffi::ThreadPool pool, ffi::AnyBuffer x, ffi::AnyBuffer ct,
                    ResultBuffer dx, ffi::Dictionary attributes) {
  constexpr std::string_view kOp = "xla_ffi_kit.rms_norm_grad";
  const ffi::ErrorOr<double> eps = GetEps(kOp, attributes);
  if (eps.has_error()) return eps.error();
  return Backward(pool, {kOp, {}, x, {}, ct, {}, *dx, {}, *eps});
}

ffi::Error BwdImpl(ffi::ThreadPool pool, ffi::AnyBuffer scale, ffi::AnyBuffer x,
                   ffi::AnyBuffer ct, ResultBuffer dx,
                   ffi::Dictionary attributes) {
  constexpr std::string_view kOp = "xla_ffi_kit.rms_norm_bwd";
  ffi::Error e = CheckNoAttributes(kOp, attributes);
  if (e.failure()) return e;
  return Backward(pool, {kOp, scale, x, {}, ct, {}, *dx, {}, /*eps=*/0});
}

ffi::Error WeightBwdImpl(ffi::ThreadPool pool, ffi::AnyBuffer scale,
                         ffi::AnyBuffer x, ffi::AnyBuffer weight,
                         ffi::AnyBuffer ct, ResultBuffer dx,
                         ResultBuffer dweight, ffi::Dictionary attributes) {
  constexpr std::string_view kOp = "xla_ffi_kit.rms_norm_weight_bwd";
  ffi::Error e = CheckNoAttributes(kOp, attributes);
  if (e.failure()) return e;
  return Backward(pool, {kOp,
                         scale,
                         x,
                         weight,
                         ct,
                         {},
                         *dx,
                         *dweight,
                         /*eps=*/0});
}

ffi::Error WeightResidualBwdImpl(ffi::ThreadPool pool, ffi::AnyBuffer scale,
                                 ffi::AnyBuffer x, ffi::AnyBuffer weight,
                                 ffi::AnyBuffer ct, ffi::AnyBuffer ct_sum,
                                 ResultBuffer dx, ResultBuffer dweight,
                                 ffi::Dictionary attributes) {
  constexpr std::string_view kOp = "xla_ffi_kit.rms_norm_weight_residual_bwd";
  ffi::Error e = CheckNoAttributes(kOp, attributes);
  if (e.failure()) return e;
  return Backward(
      pool, {kOp, scale, x, weight, ct, ct_sum, *dx, *dweight, /*eps=*/0});
}

}  // namespace
}  // namespace xla_ffi_kit

XLA_FFI_DEFINE_HANDLER_SYMBOL(XlaFfiKitRmsNormGradCpu, xla_ffi_kit::GradImpl,
                              xla::ffi::Ffi::Bind()
                                  .Ctx<xla::ffi::ThreadPool>()
                                  .Arg<xla::ffi::AnyBuffer>()  // x
                                  .Arg<xla::ffi::AnyBuffer>()  // ct
                                  .Ret<xla::ffi::AnyBuffer>()  // dx
                                  .Attrs());                   // eps

XLA_FFI_DEFINE_HANDLER_SYMBOL(XlaFfiKitRmsNormBwdCpu, xla_ffi_kit::BwdImpl,
                              xla::ffi::Ffi::Bind()
                                  .Ctx<xla::ffi::ThreadPool>()
                                  .Arg<xla::ffi::AnyBuffer>()  // scale
                                  .Arg<xla::ffi::AnyBuffer>()  // x
                                  .Arg<xla::ffi::AnyBuffer>()  // ct
                                  .Ret<xla::ffi::AnyBuffer>()  // dx
                                  .Attrs());                   // none

XLA_FFI_DEFINE_HANDLER_SYMBOL(XlaFfiKitRmsNormWeightBwdCpu,
                              xla_ffi_kit::WeightBwdImpl,
                              xla::ffi::Ffi::Bind()
                                  .Ctx<xla::ffi::ThreadPool>()
                                  .Arg<xla::ffi::AnyBuffer>()  // scale
                                  .Arg<xla::ffi::AnyBuffer>()  // x
                                  .Arg<xla::ffi::AnyBuffer>()  // weight
                                  .Arg<xla::ffi::AnyBuffer>()  // ct
                                  .Ret<xla::ffi::AnyBuffer>()  // dx
                                  .Ret<xla::ffi::AnyBuffer>()  // dweight
                                  .Attrs());                   // none

XLA_FFI_DEFINE_HANDLER_SYMBOL(
    XlaFfiKitRmsNormWeightResidualBwdCpu, xla_ffi_kit::WeightResidualBwdImpl,
    xla::ffi::Ffi::Bind()
        .Ctx<xla::ffi::ThreadPool>()
        .Arg<xla::ffi::AnyBuffer>()  // scale
        .Arg<xla::ffi::AnyBuffer>()  // x, the forward's sum
        .Arg<xla::ffi::AnyBuffer>()  // weight
        .Arg<xla::ffi::AnyBuffer>()  // ct
        .Arg<xla::ffi::AnyBuffer>()  // ct_sum
        .Ret<xla::ffi::AnyBuffer>()  // dx
        .Ret<xla::ffi::AnyBuffer>()  // dweight
        .Attrs());                   // none
