// User data: an object that a C++ program passes to one run of an executable.
//
// examples.tag: () -> s64[], the tag of the request that is being served. The
// program that runs the executable puts a RequestTag into the run's context
// (xla::ExecuteContext::ffi_context()); JAX has no way to, so there the call is
// an error that says so.

#include "examples/ffi/user_data.h"

#include "xla/ffi/api/ffi.h"
#include "xla_ffi/core/define_type.h"

namespace ffi_examples {

namespace ffi = ::xla::ffi;

XLA_FFI_KIT_DEFINE_TYPE(ExampleRequestTag, RequestTag);

static ffi::Error Tag(RequestTag* request, ffi::ResultBufferR0<ffi::S64> tag) {
  *tag->typed_data() = request->tag;
  return ffi::Error::Success();
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(ExampleTag, Tag,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::UserData<RequestTag>>()
                                  .Ret<ffi::BufferR0<ffi::S64>>());  // tag

}  // namespace ffi_examples
