#include "xla_ffi/registration/registry.h"

// Generated with the list of handlers in //xla_ffi:cpu.
extern "C" const XlaFfiKit_HandlerTable* xla_ffi_kit_cpu_handler_table();

const XlaFfiKit_HandlerTable* XlaFfiKit_CpuHandlerTable() {
  return xla_ffi_kit_cpu_handler_table();
}

XLA_FFI_Error* XlaFfiKit_RegisterCpuHandlers(const XLA_FFI_Api* api) {
  return xla_ffi_kit_cpu_handler_table()->register_all(api);
}
