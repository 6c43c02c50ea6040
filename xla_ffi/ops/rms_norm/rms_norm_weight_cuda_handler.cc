#include <cstdint>
#include <string_view>

#include "cuda_runtime.h"
#include "xla/ffi/api/ffi.h"
#include "xla_ffi/core/accumulation_type.h"
#include "xla_ffi/core/batch_shape.h"
#include "xla_ffi/core/checks.h"
#include "xla_ffi/core/components.h"
#include "xla_ffi/core/cuda/status.h"
#include "xla_ffi/core/dtype_dispatch.h"
#include "xla_ffi/ops/rms_norm/rms_norm_checks.h"
#include "xla_ffi/ops/rms_norm/rms_norm_cuda.h"
#include "xla_ffi/ops/rms_norm/rms_norm_handler.h"
#include "xla_ffi/ops/rms_norm/rms_norm_weight_cuda.h"

namespace xla_ffi_kit {
namespace {

using namespace rms_norm_internal;  // NOLINT: the handlers' own helpers

using ResultBuffer = ffi::Result<ffi::AnyBuffer>;

ffi::Error Forward(cudaStream_t stream, const ffi::Dictionary& attributes,
                   const ForwardCall& call) {
  const ffi::ErrorOr<double> eps = GetEps(call.operation, attributes);
  if (eps.has_error()) return eps.error();
  if (ffi::Error e = CheckForward(call); e.failure()) return e;
  return DispatchDtype(
      FloatTypes(), call.x.element_type(), {call.operation, "operand x"},
      [&](auto tag) -> ffi::Error {
        using T = typename decltype(tag)::type;
        using R = ComponentType<T>;
        ffi::Error e =
            CheckScale<T>({call.operation, "result scale"}, call.scale, call.x);
        if (e.failure()) return e;
        const BatchShape shape = SplitLastAxis(call.x.dimensions());
        RmsNormWeightCudaForward<R> args;
        args.x = Data<const R>(call.x);
        args.weight = Data<const R>(call.weight);
        args.residual = Data<const R>(call.residual);
        args.y = Data<R>(call.y);
        args.sum = Data<R>(call.sum);
        args.scale = Data<AccumulationType<R>>(call.scale);
        args.shape = {shape.rows, shape.length, kComponents<T>};
        args.rows_per_weight = RowsPerWeight(shape.rows, call.weight);
        args.eps = *eps;
        return CudaStatus(call.operation, RmsNormWeightCuda(args, stream));
      });
}

ffi::Error WeightImpl(cudaStream_t stream, ffi::AnyBuffer x,
                      ffi::AnyBuffer weight, ResultBuffer y,
                      ffi::Dictionary attributes) {
  return Forward(stream, attributes,
                 {"xla_ffi_kit.rms_norm_weight", x, weight, {}, *y, {}, {}});
}

ffi::Error WeightFwdImpl(cudaStream_t stream, ffi::AnyBuffer x,
                         ffi::AnyBuffer weight, ResultBuffer y,
                         ResultBuffer scale, ffi::Dictionary attributes) {
  return Forward(
      stream, attributes,
      {"xla_ffi_kit.rms_norm_weight_fwd", x, weight, {}, *y, {}, *scale});
}

ffi::Error WeightResidualImpl(cudaStream_t stream, ffi::AnyBuffer x,
                              ffi::AnyBuffer weight, ffi::AnyBuffer residual,
                              ResultBuffer y, ResultBuffer sum,
                              ffi::Dictionary attributes) {
  return Forward(stream, attributes,
                 {"xla_ffi_kit.rms_norm_weight_residual",
                  x,
                  weight,
                  residual,
                  *y,
                  *sum,
                  {}});
}

ffi::Error WeightResidualFwdImpl(cudaStream_t stream, ffi::AnyBuffer x,
                                 ffi::AnyBuffer weight, ffi::AnyBuffer residual,
                                 ResultBuffer y, ResultBuffer sum,
                                 ResultBuffer scale,
                                 ffi::Dictionary attributes) {
  return Forward(stream, attributes,
                 {"xla_ffi_kit.rms_norm_weight_residual_fwd", x, weight,
                  residual, *y, *sum, *scale});
}

// Every handler's stream and first operand.
auto BindX() {
  return ffi::Ffi::Bind()
      .Ctx<ffi::PlatformStream<cudaStream_t>>()
      .Arg<ffi::AnyBuffer>();  // x
}

}  // namespace
}  // namespace xla_ffi_kit

XLA_FFI_DEFINE_HANDLER_SYMBOL(XlaFfiKitRmsNormWeightCuda,
                              xla_ffi_kit::WeightImpl,
                              xla_ffi_kit::BindX()
                                  .Arg<xla::ffi::AnyBuffer>()  // weight
                                  .Ret<xla::ffi::AnyBuffer>()  // y
                                  .Attrs(),                    // eps
                              {xla::ffi::Traits::kCmdBufferCompatible});

XLA_FFI_DEFINE_HANDLER_SYMBOL(XlaFfiKitRmsNormWeightFwdCuda,
                              xla_ffi_kit::WeightFwdImpl,
                              xla_ffi_kit::BindX()
                                  .Arg<xla::ffi::AnyBuffer>()  // weight
                                  .Ret<xla::ffi::AnyBuffer>()  // y
                                  .Ret<xla::ffi::AnyBuffer>()  // scale
                                  .Attrs(),                    // eps
                              {xla::ffi::Traits::kCmdBufferCompatible});

XLA_FFI_DEFINE_HANDLER_SYMBOL(XlaFfiKitRmsNormWeightResidualCuda,
                              xla_ffi_kit::WeightResidualImpl,
                              xla_ffi_kit::BindX()
                                  .Arg<xla::ffi::AnyBuffer>()  // weight
                                  .Arg<xla::ffi::AnyBuffer>()  // residual
                                  .Ret<xla::ffi::AnyBuffer>()  // y
                                  .Ret<xla::ffi::AnyBuffer>()  // sum
                                  .Attrs(),                    // eps
                              {xla::ffi::Traits::kCmdBufferCompatible});

XLA_FFI_DEFINE_HANDLER_SYMBOL(XlaFfiKitRmsNormWeightResidualFwdCuda,
                              xla_ffi_kit::WeightResidualFwdImpl,
                              xla_ffi_kit::BindX()
                                  .Arg<xla::ffi::AnyBuffer>()  // weight
                                  .Arg<xla::ffi::AnyBuffer>()  // residual
                                  .Ret<xla::ffi::AnyBuffer>()  // y
                                  .Ret<xla::ffi::AnyBuffer>()  // sum
                                  .Ret<xla::ffi::AnyBuffer>()  // scale
                                  .Attrs(),                    // eps
                              {xla::ffi::Traits::kCmdBufferCompatible});
