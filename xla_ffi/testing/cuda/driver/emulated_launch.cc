// The handler of //xla_ffi/runtime for CPUs, whose programs have no stream.

#include <cstdint>
#include <string_view>

#include "xla/ffi/api/ffi.h"
#include "xla_ffi/runtime/bindings.h"
#include "xla_ffi/runtime/launch.h"

namespace xla_ffi_kit::launch {
namespace {

namespace ffi = ::xla::ffi;

ffi::Error Execute(ffi::RemainingArgs operands, ffi::RemainingRets results,
                   std::string_view name, std::string_view symbol,
                   std::string_view digest, std::string_view code, Sizes grid,
                   Sizes block, int64_t shared, Sizes items, Sizes parameters,
                   Sizes constants) {
  return Launch({name, symbol, digest, code, grid, block, shared, items,
                 parameters, constants},
                nullptr, operands, results);
}

}  // namespace
}  // namespace xla_ffi_kit::launch

XLA_FFI_DEFINE_HANDLER_SYMBOL(
    XlaFfiKitEmulatedLaunch, xla_ffi_kit::launch::Execute,
    xla_ffi_kit::launch::WithKernel(
        xla::ffi::Ffi::Bind().RemainingArgs().RemainingRets()));
