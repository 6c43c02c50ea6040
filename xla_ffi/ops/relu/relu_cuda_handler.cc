#include <cstdint>
#include <string_view>

#include "xla_ffi/core/cuda/handler.h"
#include "xla_ffi/ops/relu/relu_cuda.h"
#include "xla_ffi/ops/relu/relu_handler.h"

namespace xla_ffi_kit {
namespace {

namespace ffi = ::xla::ffi;

constexpr std::string_view kOp = "xla_ffi_kit.relu";

ffi::Error ReluCudaImpl(cudaStream_t stream, ffi::AnyBuffer x,
                        ffi::Result<ffi::AnyBuffer> y,
                        ffi::Dictionary attributes) {
  XLA_FFI_KIT_RETURN_IF_ERROR(CheckNoAttributes(kOp, attributes));
  XLA_FFI_KIT_RETURN_IF_ERROR(CheckData({kOp, "operand x"}, x));
  XLA_FFI_KIT_RETURN_IF_ERROR(
      CheckLike({kOp, "result y"}, *y, x, "like operand x"));
  return DispatchDtype(
      SignedTypes(), x.element_type(), {kOp, "operand x"},
      [&](auto tag) -> ffi::Error {
        using T = typename decltype(tag)::type;
        return CudaStatus(
            kOp,
            ReluCuda(static_cast<const T*>(x.untyped_data()), ElementCount(x),
                     static_cast<T*>(y->untyped_data()), stream));
      });
}

}  // namespace
}  // namespace xla_ffi_kit

XLA_FFI_DEFINE_HANDLER_SYMBOL(XlaFfiKitReluCuda, xla_ffi_kit::ReluCudaImpl,
                              xla::ffi::Ffi::Bind()
                                  .Ctx<xla::ffi::PlatformStream<cudaStream_t>>()
                                  .Arg<xla::ffi::AnyBuffer>()  // x
                                  .Ret<xla::ffi::AnyBuffer>()  // y
                                  .Attrs(),                    // none
                              {xla::ffi::Traits::kCmdBufferCompatible});
