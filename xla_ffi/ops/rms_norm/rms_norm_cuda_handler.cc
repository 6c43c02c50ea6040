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

namespace xla_ffi_kit {
namespace {

using namespace rms_norm_internal;  // NOLINT: the handlers' own helpers

template <typename T>
CudaRows RowsOf(ffi::AnyBuffer x) {
  const BatchShape shape = SplitLastAxis(x.dimensions());
  return {shape.rows, shape.length, kComponents<T>};
}

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
        return CudaStatus(
            call.operation,
            RmsNormCuda(RowsOf<T>(call.x), Data<const R>(call.x), *eps,
                        Data<R>(call.y), Data<AccumulationType<T>>(call.scale),
                        stream));
      });
}

ffi::Error Backward(cudaStream_t stream, const BackwardCall& call) {
  if (ffi::Error e = CheckBackward(call); e.failure()) return e;
  return DispatchDtype(
      FloatTypes(), call.x.element_type(), {call.operation, "operand x"},
      [&](auto tag) -> ffi::Error {
        using T = typename decltype(tag)::type;
        using R = ComponentType<T>;
        ffi::Error e = CheckScale<T>({call.operation, "operand scale"},
                                     call.scale, call.x);
        if (e.failure()) return e;
        return CudaStatus(
            call.operation,
            RmsNormBackwardCuda(RowsOf<T>(call.x),
                                Data<const AccumulationType<T>>(call.scale),
                                Data<const R>(call.x), Data<const R>(call.ct),
                                call.eps, Data<R>(call.dx), stream));
      });
}

using Forwards = ForwardHandlers<Forward, cudaStream_t>;
using Backwards = BackwardHandlers<Backward, cudaStream_t>;

template <int kOperands, int kResults>
auto Bind() {
  return BindBuffers<kOperands, kResults>(
      ffi::Ffi::Bind().Ctx<ffi::PlatformStream<cudaStream_t>>());
}

}  // namespace
}  // namespace xla_ffi_kit

XLA_FFI_DEFINE_HANDLER_SYMBOL(XlaFfiKitRmsNormCuda, xla_ffi_kit::Forwards::Norm,
                              (xla_ffi_kit::Bind<1, 1>()),
                              {xla::ffi::Traits::kCmdBufferCompatible});

XLA_FFI_DEFINE_HANDLER_SYMBOL(XlaFfiKitRmsNormFwdCuda,
                              xla_ffi_kit::Forwards::NormFwd,
                              (xla_ffi_kit::Bind<1, 2>()),
                              {xla::ffi::Traits::kCmdBufferCompatible});

XLA_FFI_DEFINE_HANDLER_SYMBOL(XlaFfiKitRmsNormBwdCuda,
                              xla_ffi_kit::Backwards::Bwd,
                              (xla_ffi_kit::Bind<3, 1>()),
                              {xla::ffi::Traits::kCmdBufferCompatible});

XLA_FFI_DEFINE_HANDLER_SYMBOL(XlaFfiKitRmsNormGradCuda,
                              xla_ffi_kit::Backwards::Grad,
                              (xla_ffi_kit::Bind<2, 1>()),
                              {xla::ffi::Traits::kCmdBufferCompatible});
