#include <cstdint>

#include "cuda_runtime.h"
#include "xla/ffi/api/ffi.h"
#include "xla_ffi/core/accumulation_type.h"
#include "xla_ffi/core/batch_shape.h"
#include "xla_ffi/core/checks.h"
#include "xla_ffi/core/components.h"
#include "xla_ffi/core/cuda/device_scratch.h"
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

ffi::Error Backward(cudaStream_t stream, ffi::ScratchAllocator& scratch,
                    const BackwardCall& call) {
  if (ffi::Error e = CheckBackward(call); e.failure()) return e;
  return DispatchDtype(
      FloatTypes(), call.x.element_type(), {call.operation, "operand x"},
      [&](auto tag) -> ffi::Error {
        using T = typename decltype(tag)::type;
        using R = ComponentType<T>;
        ffi::Error e = CheckScale<T>({call.operation, "operand scale"},
                                     call.scale, call.x);
        if (e.failure()) return e;
        const BatchShape shape = SplitLastAxis(call.x.dimensions());
        RmsNormWeightCudaBackward<R> args;
        args.scale = Data<const AccumulationType<R>>(call.scale);
        args.x = Data<const R>(call.x);
        args.weight = Data<const R>(call.weight);
        args.ct = Data<const R>(call.ct);
        args.ct_sum = Data<const R>(call.ct_sum);
        args.dx = Data<R>(call.dx);
        args.dweight = Data<R>(call.dweight);
        args.shape = {shape.rows, shape.length, kComponents<T>};
        args.weights = SplitLastAxis(call.weight->dimensions()).rows;
        RmsNormWeightCudaPlan plan;
        e = CudaStatus(call.operation, PlanRmsNormWeightBackward(args, &plan));
        if (e.failure()) return e;
        const ffi::ErrorOr<void*> memory =
            GetScratch(call.operation, scratch, plan.scratch_bytes);
        if (memory.has_error()) return memory.error();
        return CudaStatus(call.operation, RmsNormWeightBackwardCuda(
                                              args, plan, *memory, stream));
      });
}

using Handlers =
    BackwardHandlers<Backward, cudaStream_t, ffi::ScratchAllocator>;

template <int kOperands, int kResults>
auto Bind() {
  return BindBuffers<kOperands, kResults>(
      ffi::Ffi::Bind()
          .Ctx<ffi::PlatformStream<cudaStream_t>>()
          .Ctx<ffi::ScratchAllocator>());
}

}  // namespace
}  // namespace xla_ffi_kit

// Not compatible with command buffers: see GetScratch().
XLA_FFI_DEFINE_HANDLER_SYMBOL(XlaFfiKitRmsNormWeightBwdCuda,
                              xla_ffi_kit::Handlers::WeightBwd,
                              (xla_ffi_kit::Bind<4, 2>()));

XLA_FFI_DEFINE_HANDLER_SYMBOL(XlaFfiKitRmsNormWeightResidualBwdCuda,
                              xla_ffi_kit::Handlers::WeightResidualBwd,
                              (xla_ffi_kit::Bind<5, 2>()));
