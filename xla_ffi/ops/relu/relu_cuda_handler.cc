#include <cstdint>
#include <string_view>

#include "cuda_runtime.h"
#include "xla/ffi/api/ffi.h"
#include "xla_ffi/core/attributes.h"
#include "xla_ffi/core/checks.h"
#include "xla_ffi/core/cuda/status.h"
#include "xla_ffi/core/dtype_dispatch.h"
#include "xla_ffi/ops/relu/relu_cuda.h"
#include "xla_ffi/ops/relu/relu_handler.h"

namespace xla_ffi_kit {
namespace {

namespace ffi = ::xla::ffi;

constexpr std::string_view kOp = "xla_ffi_kit.relu";

ffi::Error ReluCudaImpl(cudaStream_t stream, ffi::AnyBuffer x,
                        ffi::Result<ffi::AnyBuffer> y,
                        ffi::Dictionary attributes) {
  ffi::Error e = CheckNoAttributes(kOp, attributes);
  if (e.success()) e = CheckData({kOp, "operand x"}, x);
  if (e.success()) {
    e = CheckLike({kOp, "result y"}, *y, x, "like operand x");
  }
  if (e.failure()) return e;
  return DispatchDtype(
      SignedTypes(), x.element_type(), {kOp, "operand x"},
      [&](auto tag) -> ffi::Error {
        using T = typename decltype(tag)::type;
        return CudaStatus(kOp,
                          ReluCuda(static_cast<const T*>(x.untyped_data()),
                                   static_cast<int64_t>(x.element_count()),
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
