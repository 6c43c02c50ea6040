#include "xla_ffi/core/components.h"
#include "xla_ffi/core/cuda/handler.h"
#include "xla_ffi/ops/modular_add/modular_add_checks.h"
#include "xla_ffi/ops/modular_add/modular_add_cuda.h"
#include "xla_ffi/ops/modular_add/modular_add_handler.h"

namespace xla_ffi_kit::modular_add_internal {
namespace {

namespace ffi = ::xla::ffi;

ffi::Error RunCuda(const Call& call, cudaStream_t stream) {
  XLA_FFI_KIT_RETURN_IF_ERROR(CheckModularAdd(call));
  return call.Dispatch(NumberTypes(), 0, [&](auto tag) -> ffi::Error {
    using T = typename decltype(tag)::type;
    const ffi::AnyBuffer c = call.operand(1);
    if (ElementCount(c) == 0) return {};
    const BatchShape shape = SplitLastAxis(c.dimensions());
    return CudaStatus(
        call.operation(),
        ModularAddCuda(AsComponents(call.In<T>(0)),
                       call.operand(0).dimensions().back() * kComponents<T>,
                       AsComponents(call.In<T>(1)),
                       shape.length * kComponents<T>, shape.rows,
                       AsComponents(call.Out<T>(0)), stream));
  });
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(XlaFfiKitModularAddCuda,
                              (Checked<kModularAdd, RunCuda, cudaStream_t>),
                              BindCall<ffi::PlatformStream<cudaStream_t>>(),
                              {ffi::Traits::kCmdBufferCompatible});
XLA_FFI_KIT_DEFINE_SIGNATURE(XlaFfiKitModularAddCuda, kModularAdd);

}  // namespace xla_ffi_kit::modular_add_internal
