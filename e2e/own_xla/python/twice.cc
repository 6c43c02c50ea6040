// A handler, and the module that gives Python a capsule of it.

#include "nanobind/nanobind.h"
#include "xla/ffi/api/ffi.h"

namespace nb = nanobind;
namespace ffi = xla::ffi;

ffi::Error Twice(ffi::Buffer<ffi::F32> x, ffi::ResultBuffer<ffi::F32> y) {
  for (size_t i = 0; i < x.element_count(); ++i) {
    y->typed_data()[i] = 2 * x.typed_data()[i];
  }
  return ffi::Error::Success();
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(
    OwnTwice, Twice,
    ffi::Ffi::Bind().Arg<ffi::Buffer<ffi::F32>>().Ret<ffi::Buffer<ffi::F32>>());

NB_MODULE(twice, m) {
  m.def("registrations", [] {
    nb::dict handlers;
    handlers["own.twice"] = nb::capsule(reinterpret_cast<void*>(&OwnTwice));
    return handlers;
  });
}
