// registry.h for the handlers of CUDA devices. Registering them needs neither a
// GPU nor a driver; running one does.

#ifndef XLA_FFI_REGISTRATION_REGISTRY_CUDA_H_
#define XLA_FFI_REGISTRATION_REGISTRY_CUDA_H_

#include "xla/ffi/api/c_api.h"
#include "xla_ffi/core/handler_table.h"

#ifdef __cplusplus
extern "C" {
#endif

// The same as XlaFfiKit_CpuHandlerTable(), for CUDA.
const XlaFfiKit_HandlerTable* XlaFfiKit_CudaHandlerTable(void);

// The same as XlaFfiKit_RegisterCpuHandlers(), for CUDA.
XLA_FFI_Error* XlaFfiKit_RegisterCudaHandlers(const XLA_FFI_Api* api);

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // XLA_FFI_REGISTRATION_REGISTRY_CUDA_H_
