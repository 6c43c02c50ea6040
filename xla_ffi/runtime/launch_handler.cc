// The custom call target xla_ffi_kit.launch.

#include <cstdint>
#include <string_view>

#include "xla/ffi/api/ffi.h"
#include "xla_ffi/runtime/bindings.h"
#include "xla_ffi/runtime/launch.h"

namespace xla_ffi_kit::launch {
namespace {

namespace ffi = ::xla::ffi;

ffi::Error Initialize(Stream stream, std::string_view name,
                      std::string_view symbol, std::string_view digest,
                      std::string_view code, Sizes grid, Sizes block,
                      int64_t shared, Sizes items, Sizes parameters,
                      Sizes constants) {
  return Load({name, symbol, digest, code, grid, block, shared, items,
               parameters, constants},
              stream);
}

ffi::Error Execute(Stream stream, ffi::RemainingArgs operands,
                   ffi::RemainingRets results, std::string_view name,
                   std::string_view symbol, std::string_view digest,
                   std::string_view code, Sizes grid, Sizes block,
                   int64_t shared, Sizes items, Sizes parameters,
                   Sizes constants) {
  return Launch({name, symbol, digest, code, grid, block, shared, items,
                 parameters, constants},
                stream, operands, results);
}

}  // namespace
}  // namespace xla_ffi_kit::launch

XLA_FFI_DEFINE_HANDLER_SYMBOL(
    XlaFfiKitLaunchInitialize, xla_ffi_kit::launch::Initialize,
    xla_ffi_kit::launch::WithKernel(
        xla::ffi::Ffi::BindInitialize()
            .Ctx<xla::ffi::PlatformStream<xla_ffi_kit::launch::Stream>>()));

XLA_FFI_DEFINE_HANDLER_SYMBOL(
    XlaFfiKitLaunch, xla_ffi_kit::launch::Execute,
    xla_ffi_kit::launch::WithKernel(
        xla::ffi::Ffi::Bind()
            .Ctx<xla::ffi::PlatformStream<xla_ffi_kit::launch::Stream>>()
            .RemainingArgs()
            .RemainingRets()),
    {xla::ffi::Traits::kCmdBufferCompatible});
