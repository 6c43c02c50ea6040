// The hooks of handlers whose signatures say all.

#include "xla_ffi/testing/frames.h"

namespace xla_ffi_kit::testing {

HandlerHooks GetHandlerHooks() { return {}; }

}  // namespace xla_ffi_kit::testing
