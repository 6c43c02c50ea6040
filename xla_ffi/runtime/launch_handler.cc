// The custom call target xla_ffi_kit.launch.

#include "xla/ffi/api/ffi.h"
#include "xla_ffi/runtime/launch.h"

namespace xla_ffi_kit::launch {

namespace ffi = ::xla::ffi;

XLA_FFI_DEFINE_HANDLER_SYMBOL(XlaFfiKitLaunchInitialize, Load,
                              ffi::Ffi::BindInitialize()
                                  .Ctx<ffi::PlatformStream<Stream>>()
                                  .Attrs<Kernel>());

XLA_FFI_DEFINE_HANDLER_SYMBOL(XlaFfiKitLaunch, Launch,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::PlatformStream<Stream>>()
                                  .RemainingArgs()
                                  .RemainingRets()
                                  .Attrs<Kernel>(),
                              {ffi::Traits::kCmdBufferCompatible});

}  // namespace xla_ffi_kit::launch
