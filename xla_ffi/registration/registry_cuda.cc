#include "xla_ffi/registration/registry.h"

// Generated with the list of handlers in //xla_ffi:cuda.
extern "C" const XlaFfiKit_HandlerTable* xla_ffi_kit_cuda_handler_table();

const XlaFfiKit_HandlerTable* XlaFfiKit_CudaHandlerTable() {
  return xla_ffi_kit_cuda_handler_table();
}

XLA_FFI_Error* XlaFfiKit_RegisterCudaHandlers(const XLA_FFI_Api* api) {
  return xla_ffi_kit_cuda_handler_table()->register_all(api);
}
