/* Names of the FFI's C API that changed, for code that compiles with every
   version of its headers, from 0.2 on, as C or C++.

   Version 0.4 renamed XLA_FFI_Error_GetMessage, which then gives the error's
   code too, XLA_FFI_ExecutionContext_Get and XLA_FFI_Extension_Base. With older
   headers the new names stand for the old ones, and XLA_FFI_KIT_ERROR_HAS_CODE
   is 0. */

#ifndef XLA_FFI_CORE_C_API_NAMES_H_
#define XLA_FFI_CORE_C_API_NAMES_H_

#include "xla/ffi/api/c_api.h"

#if XLA_FFI_API_MAJOR == 0 && XLA_FFI_API_MINOR < 4
#define XLA_FFI_KIT_ERROR_HAS_CODE 0
#define XLA_FFI_Error_GetDetails XLA_FFI_Error_GetMessage
#define XLA_FFI_Error_GetDetails_Args XLA_FFI_Error_GetMessage_Args
#define XLA_FFI_Error_GetDetails_Args_STRUCT_SIZE \
  XLA_FFI_Error_GetMessage_Args_STRUCT_SIZE
#define XLA_FFI_InternalExtension XLA_FFI_Extension_Base
#define XLA_FFI_InvokeContext_Get XLA_FFI_ExecutionContext_Get
#define XLA_FFI_InvokeContext_Get_Args XLA_FFI_ExecutionContext_Get_Args
#else
#define XLA_FFI_KIT_ERROR_HAS_CODE 1
#endif

#endif /* XLA_FFI_CORE_C_API_NAMES_H_ */
