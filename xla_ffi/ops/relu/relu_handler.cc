#include "xla_ffi/ops/relu/relu_handler.h"

#include <cstdint>
#include <string_view>

#include "xla_ffi/core/handler.h"
#include "xla_ffi/ops/relu/relu.h"

namespace xla_ffi_kit {
namespace {

namespace ffi = ::xla::ffi;

constexpr std::string_view kOp = "xla_ffi_kit.relu";

ffi::Error ReluImpl(ffi::ThreadPool pool, ffi::AnyBuffer x,
                    ffi::Result<ffi::AnyBuffer> y, ffi::Dictionary attributes) {
  XLA_FFI_KIT_RETURN_IF_ERROR(CheckNoAttributes(kOp, attributes));
  XLA_FFI_KIT_RETURN_IF_ERROR(CheckData({kOp, "operand x"}, x));
  XLA_FFI_KIT_RETURN_IF_ERROR(
      CheckLike({kOp, "result y"}, *y, x, "like operand x"));
  return DispatchDtype(
      SignedTypes(), x.element_type(), {kOp, "operand x"},
      [&](auto tag) -> ffi::Error {
        using T = typename decltype(tag)::type;
        const auto* in = static_cast<const T*>(x.untyped_data());
        auto* out = static_cast<T*>(y->untyped_data());
        AdviseHugePages(out, SizeBytes(*y));
        ParallelFor(pool, ElementCount(x), 2 * sizeof(T),
                    [&](int64_t begin, int64_t end) noexcept {
                      Relu(in + begin, end - begin, out + begin);
                    });
        return {};
      });
}

}  // namespace
}  // namespace xla_ffi_kit

XLA_FFI_DEFINE_HANDLER_SYMBOL(XlaFfiKitReluCpu, xla_ffi_kit::ReluImpl,
                              xla::ffi::Ffi::Bind()
                                  .Ctx<xla::ffi::ThreadPool>()
                                  .Arg<xla::ffi::AnyBuffer>()  // x
                                  .Ret<xla::ffi::AnyBuffer>()  // y
                                  .Attrs());                   // none
