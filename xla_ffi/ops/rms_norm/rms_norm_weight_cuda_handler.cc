#include <cstdint>

#include "cuda_runtime.h"
#include "xla/ffi/api/ffi.h"
#include "xla_ffi/core/accumulation_type.h"
#include "xla_ffi/core/batch_shape.h"
#include "xla_ffi/core/checks.h"
#include "xla_ffi/core/components.h"
#include "xla_ffi/core/cuda/status.h"
#include "xla_ffi/core/dtype_dispatch.h"
#include "xla_ffi/ops/rms_norm/rms_norm_calls.h"
#include "xla_ffi/ops/rms_norm/rms_norm_checks.h"
#include "xla_ffi/ops/rms_norm/rms_norm_cuda.h"
#include "xla_ffi/ops/rms_norm/rms_norm_handler.h"
#include "xla_ffi/ops/rms_norm/rms_norm_weight_cuda.h"

namespace xla_ffi_kit {
namespace {

using namespace rms_norm_internal;  // NOLINT: the handlers' own helpers

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

using Handlers = ForwardHandlers<Forward, cudaStream_t>;

template <int kOperands, int kResults>
auto Bind() {
  return BindBuffers<kOperands, kResults>(
      ffi::Ffi::Bind().Ctx<ffi::PlatformStream<cudaStream_t>>());
}

}  // namespace
}  // namespace xla_ffi_kit

XLA_FFI_DEFINE_HANDLER_SYMBOL(XlaFfiKitRmsNormWeightCuda,
                              xla_ffi_kit::Handlers::Weight,
                              (xla_ffi_kit::Bind<2, 1>()),
                              {xla::ffi::Traits::kCmdBufferCompatible});

XLA_FFI_DEFINE_HANDLER_SYMBOL(XlaFfiKitRmsNormWeightFwdCuda,
                              xla_ffi_kit::Handlers::WeightFwd,
                              (xla_ffi_kit::Bind<2, 2>()),
                              {xla::ffi::Traits::kCmdBufferCompatible});

XLA_FFI_DEFINE_HANDLER_SYMBOL(XlaFfiKitRmsNormWeightResidualCuda,
                              xla_ffi_kit::Handlers::WeightResidual,
                              (xla_ffi_kit::Bind<3, 2>()),
                              {xla::ffi::Traits::kCmdBufferCompatible});

XLA_FFI_DEFINE_HANDLER_SYMBOL(XlaFfiKitRmsNormWeightResidualFwdCuda,
                              xla_ffi_kit::Handlers::WeightResidualFwd,
                              (xla_ffi_kit::Bind<3, 3>()),
                              {xla::ffi::Traits::kCmdBufferCompatible});
