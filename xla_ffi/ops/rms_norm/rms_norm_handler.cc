#include "xla_ffi/ops/rms_norm/rms_norm_handler.h"

#include <cstdint>
#include <string_view>

#include "xla/ffi/api/ffi.h"
#include "xla_ffi/core/accumulation_type.h"
#include "xla_ffi/core/batch_shape.h"
#include "xla_ffi/core/checks.h"
#include "xla_ffi/core/dtype_dispatch.h"
#include "xla_ffi/core/output_pages.h"
#include "xla_ffi/ops/rms_norm/rms_norm.h"
#include "xla_ffi/ops/rms_norm/rms_norm_checks.h"
#include "xla_ffi/ops/rms_norm/rms_norm_parallel.h"

namespace xla_ffi_kit {
namespace {

using namespace rms_norm_internal;  // NOLINT: the handlers' own helpers

using ResultBuffer = ffi::Result<ffi::AnyBuffer>;

ffi::Error Forward(ffi::ThreadPool& pool, const ffi::Dictionary& attributes,
                   const ForwardCall& call) {
  const ffi::ErrorOr<double> eps = GetEps(call.operation, attributes);
  if (eps.has_error()) return eps.error();
  if (ffi::Error e = CheckForward(call); e.failure()) return e;

  const Place x = {call.operation, "operand x"};
  const auto run = [&](auto tag) -> ffi::Error {
    using T = typename decltype(tag)::type;
    ffi::Error e =
        CheckScale<T>({call.operation, "result scale"}, call.scale, call.x);
    if (e.failure()) return e;
    const BatchShape shape = SplitLastAxis(call.x.dimensions());
    RmsNormForward<T> args;
    args.x = static_cast<const T*>(call.x.untyped_data());
    args.weight = Data<const T>(call.weight);
    args.residual = Data<const T>(call.residual);
    args.y = static_cast<T*>(call.y.untyped_data());
    args.sum = Data<T>(call.sum);
    args.scale = Data<AccumulationType<T>>(call.scale);
    args.n = shape.length;
    args.rows_per_weight = RowsPerWeight(shape.rows, call.weight);
    args.eps = *eps;
    args.is_block = call.is_block;
    AdviseHugePages(args.y, call.y.size_bytes());
    if (call.sum) AdviseHugePages(args.sum, call.sum->size_bytes());
    ParallelRmsNorm(pool, args, shape.rows);
    return {};
  };
  const ffi::DataType dtype = call.x.element_type();
  return call.is_block ? DispatchDtype(RealFloatTypes(), dtype, x, run)
                       : DispatchDtype(FloatTypes(), dtype, x, run);
}

ffi::Error RmsNormImpl(ffi::ThreadPool pool, ffi::AnyBuffer x, ResultBuffer y,
                       ffi::Dictionary attributes) {
  return Forward(pool, attributes,
                 {"xla_ffi_kit.rms_norm", x, {}, {}, *y, {}, {}});
}

ffi::Error FwdImpl(ffi::ThreadPool pool, ffi::AnyBuffer x, ResultBuffer y,
                   ResultBuffer scale, ffi::Dictionary attributes) {
  return Forward(pool, attributes,
                 {"xla_ffi_kit.rms_norm_fwd", x, {}, {}, *y, {}, *scale});
}

ffi::Error WeightImpl(ffi::ThreadPool pool, ffi::AnyBuffer x,
                      ffi::AnyBuffer weight, ResultBuffer y,
                      ffi::Dictionary attributes) {
  return Forward(pool, attributes,
                 {"xla_ffi_kit.rms_norm_weight", x, weight, {}, *y, {}, {}});
}

ffi::Error WeightFwdImpl(ffi::ThreadPool pool, ffi::AnyBuffer x,
                         ffi::AnyBuffer weight, ResultBuffer y,
                         ResultBuffer scale, ffi::Dictionary attributes) {
  return Forward(
      pool, attributes,
      {"xla_ffi_kit.rms_norm_weight_fwd", x, weight, {}, *y, {}, *scale});
}

ffi::Error WeightResidualImpl(ffi::ThreadPool pool, ffi::AnyBuffer x,
                              ffi::AnyBuffer weight, ffi::AnyBuffer residual,
                              ResultBuffer y, ResultBuffer sum,
                              ffi::Dictionary attributes) {
  return Forward(pool, attributes,
                 {"xla_ffi_kit.rms_norm_weight_residual",
                  x,
                  weight,
                  residual,
                  *y,
                  *sum,
                  {}});
}

ffi::Error WeightResidualFwdImpl(ffi::ThreadPool pool, ffi::AnyBuffer x,
                                 ffi::AnyBuffer weight, ffi::AnyBuffer residual,
                                 ResultBuffer y, ResultBuffer sum,
                                 ResultBuffer scale,
                                 ffi::Dictionary attributes) {
  return Forward(pool, attributes,
                 {"xla_ffi_kit.rms_norm_weight_residual_fwd", x, weight,
                  residual, *y, *sum, *scale});
}

ffi::Error BlockImpl(ffi::ThreadPool pool, ffi::AnyBuffer x,
                     ffi::AnyBuffer weight, ResultBuffer y,
                     ffi::Dictionary attributes) {
  return Forward(
      pool, attributes,
      {"xla_ffi_kit.rms_norm_block", x, weight, {}, *y, {}, {}, true});
}

ffi::Error BlockFwdImpl(ffi::ThreadPool pool, ffi::AnyBuffer x,
                        ffi::AnyBuffer weight, ResultBuffer y,
                        ResultBuffer scale, ffi::Dictionary attributes) {
  return Forward(
      pool, attributes,
      {"xla_ffi_kit.rms_norm_block_fwd", x, weight, {}, *y, {}, *scale, true});
}

// Every forward handler's pool and first operand.
auto BindX() {
  return ffi::Ffi::Bind().Ctx<ffi::ThreadPool>().Arg<ffi::AnyBuffer>();  // x
}

}  // namespace
}  // namespace xla_ffi_kit

XLA_FFI_DEFINE_HANDLER_SYMBOL(XlaFfiKitRmsNormCpu, xla_ffi_kit::RmsNormImpl,
                              xla_ffi_kit::BindX()
                                  .Ret<xla::ffi::AnyBuffer>()  // y
                                  .Attrs());                   // eps

XLA_FFI_DEFINE_HANDLER_SYMBOL(XlaFfiKitRmsNormFwdCpu, xla_ffi_kit::FwdImpl,
                              xla_ffi_kit::BindX()
                                  .Ret<xla::ffi::AnyBuffer>()  // y
                                  .Ret<xla::ffi::AnyBuffer>()  // scale
                                  .Attrs());                   // eps

XLA_FFI_DEFINE_HANDLER_SYMBOL(XlaFfiKitRmsNormWeightCpu,
                              xla_ffi_kit::WeightImpl,
                              xla_ffi_kit::BindX()
                                  .Arg<xla::ffi::AnyBuffer>()  // weight
                                  .Ret<xla::ffi::AnyBuffer>()  // y
                                  .Attrs());                   // eps

XLA_FFI_DEFINE_HANDLER_SYMBOL(XlaFfiKitRmsNormWeightFwdCpu,
                              xla_ffi_kit::WeightFwdImpl,
                              xla_ffi_kit::BindX()
                                  .Arg<xla::ffi::AnyBuffer>()  // weight
                                  .Ret<xla::ffi::AnyBuffer>()  // y
                                  .Ret<xla::ffi::AnyBuffer>()  // scale
                                  .Attrs());                   // eps

XLA_FFI_DEFINE_HANDLER_SYMBOL(XlaFfiKitRmsNormBlockCpu, xla_ffi_kit::BlockImpl,
                              xla_ffi_kit::BindX()
                                  .Arg<xla::ffi::AnyBuffer>()  // weight
                                  .Ret<xla::ffi::AnyBuffer>()  // y
                                  .Attrs());                   // eps

XLA_FFI_DEFINE_HANDLER_SYMBOL(XlaFfiKitRmsNormBlockFwdCpu,
                              xla_ffi_kit::BlockFwdImpl,
                              xla_ffi_kit::BindX()
                                  .Arg<xla::ffi::AnyBuffer>()  // weight
                                  .Ret<xla::ffi::AnyBuffer>()  // y
                                  .Ret<xla::ffi::AnyBuffer>()  // scale
                                  .Attrs());                   // eps

XLA_FFI_DEFINE_HANDLER_SYMBOL(XlaFfiKitRmsNormWeightResidualCpu,
                              xla_ffi_kit::WeightResidualImpl,
                              xla_ffi_kit::BindX()
                                  .Arg<xla::ffi::AnyBuffer>()  // weight
                                  .Arg<xla::ffi::AnyBuffer>()  // residual
                                  .Ret<xla::ffi::AnyBuffer>()  // y
                                  .Ret<xla::ffi::AnyBuffer>()  // sum
                                  .Attrs());                   // eps

XLA_FFI_DEFINE_HANDLER_SYMBOL(XlaFfiKitRmsNormWeightResidualFwdCpu,
                              xla_ffi_kit::WeightResidualFwdImpl,
                              xla_ffi_kit::BindX()
                                  .Arg<xla::ffi::AnyBuffer>()  // weight
                                  .Arg<xla::ffi::AnyBuffer>()  // residual
                                  .Ret<xla::ffi::AnyBuffer>()  // y
                                  .Ret<xla::ffi::AnyBuffer>()  // sum
                                  .Ret<xla::ffi::AnyBuffer>()  // scale
                                  .Attrs());                   // eps
