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

namespace xla_ffi_kit {
namespace {

using namespace rms_norm_internal;  // NOLINT: the handlers' own helpers

using ResultBuffer = ffi::Result<ffi::AnyBuffer>;

template <typename T>
CudaRows RowsOf(ffi::AnyBuffer x) {
  const BatchShape shape = SplitLastAxis(x.dimensions());
  return {shape.rows, shape.length, kComponents<T>};
}

ffi::Error Forward(std::string_view operation, cudaStream_t stream,
                   ffi::AnyBuffer x, ffi::AnyBuffer y, const MaybeBuffer& scale,
                   const ffi::Dictionary& attributes) {
  const ffi::ErrorOr<double> eps = GetEps(operation, attributes);
  if (eps.has_error()) return eps.error();
  ffi::Error e = CheckX({operation, "operand x"}, x);
  if (e.success()) e = CheckLikeX({operation, "result y"}, y, x);
  if (e.failure()) return e;
  return DispatchDtype(
      FloatTypes(), x.element_type(), {operation, "operand x"},
      [&](auto tag) -> ffi::Error {
        using T = typename decltype(tag)::type;
        ffi::Error e = CheckScale<T>({operation, "result scale"}, scale, x);
        if (e.failure()) return e;
        return CudaStatus(
            operation,
            RmsNormCuda(RowsOf<T>(x),
                        AsComponents(static_cast<const T*>(x.untyped_data())),
                        *eps, AsComponents(static_cast<T*>(y.untyped_data())),
                        Data<AccumulationType<T>>(scale), stream));
      });
}

ffi::Error RmsNormCudaImpl(cudaStream_t stream, ffi::AnyBuffer x,
                           ResultBuffer y, ffi::Dictionary attributes) {
  return Forward("xla_ffi_kit.rms_norm", stream, x, *y, {}, attributes);
}

ffi::Error FwdCudaImpl(cudaStream_t stream, ffi::AnyBuffer x, ResultBuffer y,
                       ResultBuffer scale, ffi::Dictionary attributes) {
  return Forward("xla_ffi_kit.rms_norm_fwd", stream, x, *y, *scale, attributes);
}

ffi::Error Backward(std::string_view operation, cudaStream_t stream,
                    const MaybeBuffer& scale, ffi::AnyBuffer x,
                    ffi::AnyBuffer ct, double eps, ffi::AnyBuffer dx) {
  ffi::Error e = CheckX({operation, "operand x"}, x);
  if (e.success()) e = CheckLikeX({operation, "operand ct"}, ct, x);
  if (e.success()) e = CheckLikeX({operation, "result dx"}, dx, x);
  if (e.failure()) return e;
  return DispatchDtype(
      FloatTypes(), x.element_type(), {operation, "operand x"},
      [&](auto tag) -> ffi::Error {
        using T = typename decltype(tag)::type;
        ffi::Error e = CheckScale<T>({operation, "operand scale"}, scale, x);
        if (e.failure()) return e;
        return CudaStatus(
            operation,
            RmsNormBackwardCuda(
                RowsOf<T>(x), Data<const AccumulationType<T>>(scale),
                AsComponents(static_cast<const T*>(x.untyped_data())),
                AsComponents(static_cast<const T*>(ct.untyped_data())), eps,
                AsComponents(static_cast<T*>(dx.untyped_data())), stream));
      });
}

ffi::Error BwdCudaImpl(cudaStream_t stream, ffi::AnyBuffer scale,
                       ffi::AnyBuffer x, ffi::AnyBuffer ct, ResultBuffer dx,
                       ffi::Dictionary attributes) {
  constexpr std::string_view kOp = "xla_ffi_kit.rms_norm_bwd";
  ffi::Error e = CheckNoAttributes(kOp, attributes);
  if (e.failure()) return e;
  return Backward(kOp, stream, scale, x, ct, /*eps=*/0, *dx);
}

ffi::Error GradCudaImpl(cudaStream_t stream, ffi::AnyBuffer x,
                        ffi::AnyBuffer ct, ResultBuffer dx,
                        ffi::Dictionary attributes) {
  constexpr std::string_view kOp = "xla_ffi_kit.rms_norm_grad";
  const ffi::ErrorOr<double> eps = GetEps(kOp, attributes);
  if (eps.has_error()) return eps.error();
  return Backward(kOp, stream, {}, x, ct, *eps, *dx);
}

auto BindStream() {
  return ffi::Ffi::Bind().Ctx<ffi::PlatformStream<cudaStream_t>>();
}

}  // namespace
}  // namespace xla_ffi_kit

XLA_FFI_DEFINE_HANDLER_SYMBOL(XlaFfiKitRmsNormCuda,
                              xla_ffi_kit::RmsNormCudaImpl,
                              xla_ffi_kit::BindStream()
                                  .Arg<xla::ffi::AnyBuffer>()  // x
                                  .Ret<xla::ffi::AnyBuffer>()  // y
                                  .Attrs(),                    // eps
                              {xla::ffi::Traits::kCmdBufferCompatible});

XLA_FFI_DEFINE_HANDLER_SYMBOL(XlaFfiKitRmsNormFwdCuda, xla_ffi_kit::FwdCudaImpl,
                              xla_ffi_kit::BindStream()
                                  .Arg<xla::ffi::AnyBuffer>()  // x
                                  .Ret<xla::ffi::AnyBuffer>()  // y
                                  .Ret<xla::ffi::AnyBuffer>()  // scale
                                  .Attrs(),                    // eps
                              {xla::ffi::Traits::kCmdBufferCompatible});

XLA_FFI_DEFINE_HANDLER_SYMBOL(XlaFfiKitRmsNormBwdCuda, xla_ffi_kit::BwdCudaImpl,
                              xla_ffi_kit::BindStream()
                                  .Arg<xla::ffi::AnyBuffer>()  // scale
                                  .Arg<xla::ffi::AnyBuffer>()  // x
                                  .Arg<xla::ffi::AnyBuffer>()  // ct
                                  .Ret<xla::ffi::AnyBuffer>()  // dx
                                  .Attrs(),                    // none
                              {xla::ffi::Traits::kCmdBufferCompatible});

XLA_FFI_DEFINE_HANDLER_SYMBOL(XlaFfiKitRmsNormGradCuda,
                              xla_ffi_kit::GradCudaImpl,
                              xla_ffi_kit::BindStream()
                                  .Arg<xla::ffi::AnyBuffer>()  // x
                                  .Arg<xla::ffi::AnyBuffer>()  // ct
                                  .Ret<xla::ffi::AnyBuffer>()  // dx
                                  .Attrs(),                    // eps
                              {xla::ffi::Traits::kCmdBufferCompatible});
