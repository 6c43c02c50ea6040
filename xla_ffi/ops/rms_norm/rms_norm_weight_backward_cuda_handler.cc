#include <cstdint>
#include <string_view>

#include "cuda_runtime.h"
#include "xla/ffi/api/ffi.h"
#include "xla_ffi/core/accumulation_type.h"
#include "xla_ffi/core/attributes.h"
#include "xla_ffi/core/batch_shape.h"
#include "xla_ffi/core/checks.h"
#include "xla_ffi/core/components.h"
#include "xla_ffi/core/cuda/status.h"
#include "xla_ffi/core/dtype_dispatch.h"
#include "xla_ffi/core/scratch.h"
#include "xla_ffi/ops/rms_norm/rms_norm_checks.h"
#include "xla_ffi/ops/rms_norm/rms_norm_cuda.h"
#include "xla_ffi/ops/rms_norm/rms_norm_handler.h"
#include "xla_ffi/ops/rms_norm/rms_norm_weight_cuda.h"

namespace xla_ffi_kit {
namespace {

using namespace rms_norm_internal;  // NOLINT: the handlers' own helpers

using ResultBuffer = ffi::Result<ffi::AnyBuffer>;

ffi::Error Backward(cudaStream_t stream, ffi::ScratchAllocator& scratch,
                    const ffi::Dictionary& attributes,
                    const BackwardCall& call) {
  ffi::Error e = CheckNoAttributes(call.operation, attributes);
  if (e.success()) e = CheckBackward(call);
  if (e.failure()) return e;
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

ffi::Error WeightBwdImpl(cudaStream_t stream, ffi::ScratchAllocator scratch,
                         ffi::AnyBuffer scale, ffi::AnyBuffer x,
                         ffi::AnyBuffer weight, ffi::AnyBuffer ct,
                         ResultBuffer dx, ResultBuffer dweight,
                         ffi::Dictionary attributes) {
  return Backward(stream, scratch, attributes,
                  {"xla_ffi_kit.rms_norm_weight_bwd",
                   scale,
                   x,
                   weight,
                   ct,
                   {},
                   *dx,
                   *dweight,
                   /*eps=*/0});
}

ffi::Error WeightResidualBwdImpl(cudaStream_t stream,
                                 ffi::ScratchAllocator scratch,
                                 ffi::AnyBuffer scale, ffi::AnyBuffer x,
                                 ffi::AnyBuffer weight, ffi::AnyBuffer ct,
                                 ffi::AnyBuffer ct_sum, ResultBuffer dx,
                                 ResultBuffer dweight,
                                 ffi::Dictionary attributes) {
  return Backward(stream, scratch, attributes,
                  {"xla_ffi_kit.rms_norm_weight_residual_bwd", scale, x, weight,
                   ct, ct_sum, *dx, *dweight, /*eps=*/0});
}

}  // namespace
}  // namespace xla_ffi_kit

// Not compatible with command buffers: see GetScratch().
XLA_FFI_DEFINE_HANDLER_SYMBOL(XlaFfiKitRmsNormWeightBwdCuda,
                              xla_ffi_kit::WeightBwdImpl,
                              xla::ffi::Ffi::Bind()
                                  .Ctx<xla::ffi::PlatformStream<cudaStream_t>>()
                                  .Ctx<xla::ffi::ScratchAllocator>()
                                  .Arg<xla::ffi::AnyBuffer>()  // scale
                                  .Arg<xla::ffi::AnyBuffer>()  // x
                                  .Arg<xla::ffi::AnyBuffer>()  // weight
                                  .Arg<xla::ffi::AnyBuffer>()  // ct
                                  .Ret<xla::ffi::AnyBuffer>()  // dx
                                  .Ret<xla::ffi::AnyBuffer>()  // dweight
                                  .Attrs());                   // none

XLA_FFI_DEFINE_HANDLER_SYMBOL(
    XlaFfiKitRmsNormWeightResidualBwdCuda, xla_ffi_kit::WeightResidualBwdImpl,
    xla::ffi::Ffi::Bind()
        .Ctx<xla::ffi::PlatformStream<cudaStream_t>>()
        .Ctx<xla::ffi::ScratchAllocator>()
        .Arg<xla::ffi::AnyBuffer>()  // scale
        .Arg<xla::ffi::AnyBuffer>()  // x, the forward's sum
        .Arg<xla::ffi::AnyBuffer>()  // weight
        .Arg<xla::ffi::AnyBuffer>()  // ct
        .Arg<xla::ffi::AnyBuffer>()  // ct_sum
        .Ret<xla::ffi::AnyBuffer>()  // dx
        .Ret<xla::ffi::AnyBuffer>()  // dweight
        .Attrs());                   // none
