// The handler of //xla_ffi/runtime for CPUs, whose programs have no stream.

#include "xla/ffi/api/ffi.h"
#include "xla_ffi/runtime/launch.h"

namespace xla_ffi_kit::launch {
namespace {

namespace ffi = ::xla::ffi;

ffi::Error LaunchWithoutStream(ffi::RemainingArgs operands,
                               ffi::RemainingRets results,
                               const Kernel& kernel) {
  return Launch(nullptr, operands, results, kernel);
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(
    XlaFfiKitEmulatedLaunch, LaunchWithoutStream,
    ffi::Ffi::Bind().RemainingArgs().RemainingRets().Attrs<Kernel>());

}  // namespace xla_ffi_kit::launch
