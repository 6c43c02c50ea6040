// The extension module of one handler library: its handlers as PyCapsules.
//
// Compiled once for each `pybind11_module` of xla_ffi_library(), with
//   XLA_FFI_KIT_MODULE         the module's name
//   XLA_FFI_KIT_HANDLER_TABLE  the library's function that gives its table

#include <cstddef>

#include "pybind11/pybind11.h"
#include "xla_ffi/core/handler_table.h"

extern "C" const XlaFfiKit_HandlerTable* XLA_FFI_KIT_HANDLER_TABLE();

namespace {

namespace py = ::pybind11;

py::capsule Capsule(XLA_FFI_Handler* handler) {
  return py::capsule(reinterpret_cast<void*>(handler));
}

// The handlers of one custom call target by stage: what
// jax.ffi.register_ffi_target takes.
py::dict Stages(const XlaFfiKit_Handler& handler) {
  py::dict stages;
  if (handler.instantiate) stages["instantiate"] = Capsule(handler.instantiate);
  if (handler.prepare) stages["prepare"] = Capsule(handler.prepare);
  if (handler.initialize) stages["initialize"] = Capsule(handler.initialize);
  stages["execute"] = Capsule(handler.execute);
  return stages;
}

py::dict Registrations() {
  const XlaFfiKit_HandlerTable* table = XLA_FFI_KIT_HANDLER_TABLE();
  py::dict all;
  for (size_t i = 0; i < table->num_handlers; ++i) {
    all[table->handlers[i].name] = Stages(table->handlers[i]);
  }
  return all;
}

// Returns the arguments of jax.ffi.register_ffi_type. The capsules hold mutable
// ids, which XLA writes.
py::dict TypeRegistrations() {
  const XlaFfiKit_HandlerTable* table = XLA_FFI_KIT_HANDLER_TABLE();
  py::dict all;
  for (size_t i = 0; i < table->num_types; ++i) {
    py::dict type;
    type["type_id"] = py::capsule(static_cast<void*>(table->types[i].type_id));
    type["type_info"] =
        py::capsule(static_cast<const void*>(table->types[i].type_info));
    all[table->types[i].name] = type;
  }
  return all;
}

py::tuple ApiVersion() {
  const XlaFfiKit_HandlerTable* table = XLA_FFI_KIT_HANDLER_TABLE();
  return py::make_tuple(table->api_major, table->api_minor);
}

}  // namespace

// A macro of its own: PYBIND11_MODULE does not expand its first argument.
#define XLA_FFI_KIT_PYBIND11_MODULE(name, variable) \
  PYBIND11_MODULE(name, variable)

XLA_FFI_KIT_PYBIND11_MODULE(XLA_FFI_KIT_MODULE, m) {
  m.doc() = "Handlers of custom calls, for jax.ffi.register_ffi_target.";
  m.def("registrations", &Registrations,
        "Custom call target -> stage -> capsule of the handler.");
  m.def("type_registrations", &TypeRegistrations,
        "Type name -> capsules of its type_id and type_info; to be registered "
        "before the handlers.");
  m.def("api_version", &ApiVersion,
        "Version of the FFI headers that the handlers were built with.");
}
