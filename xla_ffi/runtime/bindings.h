// The binding of a launch, which tests bind once more, without a stream.

#ifndef XLA_FFI_RUNTIME_BINDINGS_H_
#define XLA_FFI_RUNTIME_BINDINGS_H_

#include <cstdint>
#include <string_view>

#include "xla/ffi/api/ffi.h"
#include "xla_ffi/runtime/launch.h"

namespace xla_ffi_kit::launch {

using Sizes = xla::ffi::Span<const int64_t>;

// The attributes of a call, in the order of Kernel's members.
template <typename Binding>
auto WithKernel(Binding binding) {
  return std::move(binding)
      .template Attr<std::string_view>("name")
      .template Attr<std::string_view>("symbol")
      .template Attr<std::string_view>("digest")
      .template Attr<std::string_view>("code")
      .template Attr<Sizes>("grid")
      .template Attr<Sizes>("block")
      .template Attr<int64_t>("shared")
      .template Attr<Sizes>("items")
      .template Attr<Sizes>("parameters")
      .template Attr<Sizes>("constants");
}

}  // namespace xla_ffi_kit::launch

#endif  // XLA_FFI_RUNTIME_BINDINGS_H_
