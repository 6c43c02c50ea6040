#include "xla_ffi/ops/rms_norm/rms_norm_handler.h"

#include <cstdint>

#include "xla/ffi/api/ffi.h"
#include "xla_ffi/core/accumulation_type.h"
#include "xla_ffi/core/batch_shape.h"
#include "xla_ffi/core/checks.h"
#include "xla_ffi/core/dtype_dispatch.h"
#include "xla_ffi/core/output_pages.h"
#include "xla_ffi/ops/rms_norm/rms_norm.h"
#include "xla_ffi/ops/rms_norm/rms_norm_calls.h"
#include "xla_ffi/ops/rms_norm/rms_norm_checks.h"
#include "xla_ffi/ops/rms_norm/rms_norm_parallel.h"

namespace xla_ffi_kit {
namespace {

using namespace rms_norm_internal;  // NOLINT: the handlers' own helpers

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

using Handlers = ForwardHandlers<Forward, ffi::ThreadPool>;

template <int kOperands, int kResults>
auto Bind() {
  return BindBuffers<kOperands, kResults>(
      ffi::Ffi::Bind().Ctx<ffi::ThreadPool>());
}

}  // namespace
}  // namespace xla_ffi_kit

XLA_FFI_DEFINE_HANDLER_SYMBOL(XlaFfiKitRmsNormCpu, xla_ffi_kit::Handlers::Norm,
                              (xla_ffi_kit::Bind<1, 1>()));

XLA_FFI_DEFINE_HANDLER_SYMBOL(XlaFfiKitRmsNormFwdCpu,
                              xla_ffi_kit::Handlers::NormFwd,
                              (xla_ffi_kit::Bind<1, 2>()));

XLA_FFI_DEFINE_HANDLER_SYMBOL(XlaFfiKitRmsNormWeightCpu,
                              xla_ffi_kit::Handlers::Weight,
                              (xla_ffi_kit::Bind<2, 1>()));

XLA_FFI_DEFINE_HANDLER_SYMBOL(XlaFfiKitRmsNormWeightFwdCpu,
                              xla_ffi_kit::Handlers::WeightFwd,
                              (xla_ffi_kit::Bind<2, 2>()));

XLA_FFI_DEFINE_HANDLER_SYMBOL(XlaFfiKitRmsNormBlockCpu,
                              xla_ffi_kit::Handlers::Block,
                              (xla_ffi_kit::Bind<2, 1>()));

XLA_FFI_DEFINE_HANDLER_SYMBOL(XlaFfiKitRmsNormBlockFwdCpu,
                              xla_ffi_kit::Handlers::BlockFwd,
                              (xla_ffi_kit::Bind<2, 2>()));

XLA_FFI_DEFINE_HANDLER_SYMBOL(XlaFfiKitRmsNormWeightResidualCpu,
                              xla_ffi_kit::Handlers::WeightResidual,
                              (xla_ffi_kit::Bind<3, 2>()));

XLA_FFI_DEFINE_HANDLER_SYMBOL(XlaFfiKitRmsNormWeightResidualFwdCpu,
                              xla_ffi_kit::Handlers::WeightResidualFwd,
                              (xla_ffi_kit::Bind<3, 3>()));
