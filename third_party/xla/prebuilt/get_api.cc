// The C function through which handlers find the XLA they are linked with.
//
// XLA defines it beside GetXlaFfiApi(), but the wheel's library exports only
// the C++ function. It is declared here because the header that declares it
// pulls in LLVM headers, which the wheel does not have.

#include "xla/ffi/api/c_api.h"

namespace xla::ffi {
const XLA_FFI_Api* GetXlaFfiApi();
}  // namespace xla::ffi

extern "C" const XLA_FFI_Api* XLA_FFI_GetApi() {
  return xla::ffi::GetXlaFfiApi();
}
