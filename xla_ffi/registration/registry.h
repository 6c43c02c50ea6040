// Registers the kit's handlers with an XLA, from C or C++ and without Python.
//
// The functions may be called more than once, and from several threads: XLA
// accepts a target again as long as it is the same handler.

#ifndef XLA_FFI_REGISTRATION_REGISTRY_H_
#define XLA_FFI_REGISTRATION_REGISTRY_H_

#include "xla/ffi/api/c_api.h"
#include "xla_ffi/core/handler_table.h"

#ifdef __cplusplus
extern "C" {
#endif

// The table of the kit's CPU handlers. Never null; lives as long as the
// program.
const XlaFfiKit_HandlerTable* XlaFfiKit_CpuHandlerTable(void);

// Registers every CPU handler with the XLA that `api` belongs to (within one
// binary, XLA_FFI_GetApi()). Returns null, or the first error: for instance
// ALREADY_EXISTS or INVALID_ARGUMENT for a target that another library has
// taken, INVALID_ARGUMENT for handlers newer than XLA. What was registered
// before the error stays registered. The caller reads the
// error with `api->XLA_FFI_Error_GetDetails`, which xla_ffi/core/c_api_names.h
// has for every version of the FFI, and frees it with
// `api->XLA_FFI_Error_Destroy`.
XLA_FFI_Error* XlaFfiKit_RegisterCpuHandlers(const XLA_FFI_Api* api);

// The same for CUDA devices, in the library :registry_cuda. Registering these
// handlers needs neither a GPU nor a driver; running one does.
const XlaFfiKit_HandlerTable* XlaFfiKit_CudaHandlerTable(void);
XLA_FFI_Error* XlaFfiKit_RegisterCudaHandlers(const XLA_FFI_Api* api);

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // XLA_FFI_REGISTRATION_REGISTRY_H_
