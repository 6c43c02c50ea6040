// A handler of a newer FFI than any XLA's.

#include "xla/ffi/api/c_api.h"

extern "C" XLA_FFI_Error* TestNewerHandler(XLA_FFI_CallFrame* frame) {
  XLA_FFI_Extension_Base* const extension = frame->extension_start;
  if (extension != nullptr && extension->type == XLA_FFI_Extension_Metadata) {
    auto* const of = reinterpret_cast<XLA_FFI_Metadata_Extension*>(extension);
    of->metadata->api_version.major_version = 0;
    of->metadata->api_version.minor_version = 99;
  }
  return nullptr;
}
