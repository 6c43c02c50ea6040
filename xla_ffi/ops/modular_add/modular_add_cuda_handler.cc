#include <cstdint>
#include <string_view>

#include "xla_ffi/core/components.h"
#include "xla_ffi/core/cuda/handler.h"
#include "xla_ffi/ops/modular_add/modular_add_checks.h"
#include "xla_ffi/ops/modular_add/modular_add_cuda.h"
#include "xla_ffi/ops/modular_add/modular_add_handler.h"

namespace xla_ffi_kit {
namespace {

namespace ffi = ::xla::ffi;

constexpr std::string_view kOp = "xla_ffi_kit.modular_add";

ffi::Error ModularAddCudaImpl(cudaStream_t stream, ffi::AnyBuffer b,
                              ffi::AnyBuffer c, ffi::Result<ffi::AnyBuffer> a,
                              ffi::Dictionary attributes) {
  XLA_FFI_KIT_RETURN_IF_ERROR(CheckModularAdd(kOp, b, c, *a, attributes));
  return DispatchDtype(
      NumberTypes(), b.element_type(), {kOp, "operand b"},
      [&](auto tag) -> ffi::Error {
        using T = typename decltype(tag)::type;
        if (ElementCount(c) == 0) return {};
        const BatchShape shape = SplitLastAxis(c.dimensions());
        return CudaStatus(
            kOp, ModularAddCuda(
                     AsComponents(static_cast<const T*>(b.untyped_data())),
                     b.dimensions().back() * kComponents<T>,
                     AsComponents(static_cast<const T*>(c.untyped_data())),
                     shape.length * kComponents<T>, shape.rows,
                     AsComponents(static_cast<T*>(a->untyped_data())), stream));
      });
}

}  // namespace
}  // namespace xla_ffi_kit

XLA_FFI_DEFINE_HANDLER_SYMBOL(XlaFfiKitModularAddCuda,
                              xla_ffi_kit::ModularAddCudaImpl,
                              xla::ffi::Ffi::Bind()
                                  .Ctx<xla::ffi::PlatformStream<cudaStream_t>>()
                                  .Arg<xla::ffi::AnyBuffer>()  // b
                                  .Arg<xla::ffi::AnyBuffer>()  // c
                                  .Ret<xla::ffi::AnyBuffer>()  // a
                                  .Attrs(),                    // none
                              {xla::ffi::Traits::kCmdBufferCompatible});
