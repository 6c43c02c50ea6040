#include "xla_ffi/core/cuda/handler.h"
#include "xla_ffi/ops/relu/relu_cuda.h"
#include "xla_ffi/ops/relu/relu_handler.h"

namespace xla_ffi_kit::relu_internal {
namespace {

namespace ffi = ::xla::ffi;

ffi::Error RunCuda(const Call& call, cudaStream_t stream) {
  return call.Dispatch(SignedTypes(), 0, [&](auto tag) {
    using T = typename decltype(tag)::type;
    return CudaStatus(call.operation(),
                      ReluCuda(call.In<T>(0), ElementCount(call.operand(0)),
                               call.Out<T>(0), stream));
  });
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(XlaFfiKitReluCuda,
                              (Checked<kRelu, RunCuda, cudaStream_t>),
                              BindCall<ffi::PlatformStream<cudaStream_t>>(),
                              {ffi::Traits::kCmdBufferCompatible});
XLA_FFI_KIT_DEFINE_SIGNATURE(XlaFfiKitReluCuda, kRelu);

}  // namespace xla_ffi_kit::relu_internal
