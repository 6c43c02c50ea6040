// A library as others build them: handlers without a table, among functions
// that are no handlers. doctor_test compiles it with the headers of the jaxlib
// it runs on.

#include <cstdio>
#include <cstdlib>
#include <memory>

#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

namespace {

struct Counter {
  static ffi::TypeId id;
};
ffi::TypeId Counter::id = {};

ffi::Error Nothing(ffi::AnyBuffer) { return ffi::Error::Success(); }
ffi::Error Count(Counter*, ffi::AnyBuffer) { return ffi::Error::Success(); }
ffi::ErrorOr<std::unique_ptr<Counter>> MakeCounter() {
  return std::make_unique<Counter>();
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(Plain, Nothing,
                              ffi::Ffi::Bind().Arg<ffi::AnyBuffer>());
XLA_FFI_DEFINE_HANDLER_SYMBOL(Captured, Nothing,
                              ffi::Ffi::Bind().Arg<ffi::AnyBuffer>(),
                              {ffi::Traits::kCmdBufferCompatible});
XLA_FFI_DEFINE_HANDLER_SYMBOL(
    CountHandler, Count,
    ffi::Ffi::Bind().Ctx<ffi::State<Counter>>().Arg<ffi::AnyBuffer>());
XLA_FFI_DEFINE_HANDLER_SYMBOL(MakeCounterHandler, MakeCounter,
                              ffi::Ffi::BindInstantiate());

// What handlers in other languages do: they answer the metadata call
// themselves.
static XLA_FFI_Error* ByHand(XLA_FFI_CallFrame* frame) {
  auto* metadata =
      reinterpret_cast<XLA_FFI_Metadata_Extension*>(frame->extension_start)
          ->metadata;
  metadata->api_version.major_version = XLA_FFI_API_MAJOR;
  metadata->api_version.minor_version = XLA_FFI_API_MINOR;
  return nullptr;
}
extern "C" void* by_hand() { return reinterpret_cast<void*>(&ByHand); }

extern "C" void aborts() { std::abort(); }
extern "C" void writes_anywhere(int** address) { *address[5] = 3; }
extern "C" void loops() {
  for (volatile int i = 0; i >= 0; i = i ^ 1) {
  }
}
extern "C" void* answers_nothing(void*) { return nullptr; }
extern "C" int writes_a_file() {
  FILE* file = std::fopen("written", "w");
  return file == nullptr ? 0 : std::fprintf(file, "by mistake");
}

#ifdef DIES_WHEN_LOADED  // how
const int dies = (DIES_WHEN_LOADED, 0);
#endif
