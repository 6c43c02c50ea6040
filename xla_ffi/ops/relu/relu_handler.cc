#include "xla_ffi/ops/relu/relu_handler.h"

#include <cstdint>

#include "xla_ffi/core/call.h"
#include "xla_ffi/core/handler.h"
#include "xla_ffi/ops/relu/relu.h"

namespace xla_ffi_kit::relu_internal {
namespace {

namespace ffi = ::xla::ffi;

ffi::Error Run(const Call& call, const Executor& executor) {
  const ffi::AnyBuffer y = call.result(0);
  return call.Dispatch(SignedTypes(), 0, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto* in = call.In<T>(0);
    auto* out = call.Out<T>(0);
    AdviseHugePages(out, SizeBytes(y));
    ParallelFor(executor, ElementCount(y), 2 * sizeof(T),
                [&](int64_t begin, int64_t end) noexcept {
                  Relu(in + begin, end - begin, out + begin);
                });
    return ffi::Error();
  });
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(XlaFfiKitReluCpu, (Checked<kRelu, Run>),
                              BindCall());
XLA_FFI_KIT_DEFINE_SIGNATURE(XlaFfiKitReluCpu, kRelu);

}  // namespace xla_ffi_kit::relu_internal
