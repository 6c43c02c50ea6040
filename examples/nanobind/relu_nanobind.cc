// A handler in an extension module of nanobind, as JAX's own jaxlib has them.
//
// registrations() gives what jax.ffi.register_ffi_target takes: the handlers by
// custom call target, as capsules without a name.

#include "nanobind/nanobind.h"
#include "xla/ffi/api/c_api.h"

// relu_handler.cc
extern "C" XLA_FFI_Error* XlaFfiKitReluCpu(XLA_FFI_CallFrame* call_frame);

namespace nb = ::nanobind;

NB_MODULE(relu_nanobind, m) {
  m.def("registrations", [] {
    nb::dict handlers;
    handlers["nanobind_example.relu"] =
        nb::capsule(reinterpret_cast<void*>(&XlaFfiKitReluCpu));
    return handlers;
  });
}
