// XLA's short names of data types ("f32"), for messages.

#ifndef XLA_FFI_CORE_DTYPE_NAME_H_
#define XLA_FFI_CORE_DTYPE_NAME_H_

#include <string>

#include "xla/ffi/api/ffi.h"
#include "xla_ffi/core/dtypes.h"

namespace xla_ffi_kit {

// The name HLO text uses. A type that dtypes.h does not list, or that the FFI
// headers of this build do not know because the running XLA is newer, is named
// by its number: no operation takes it.
inline std::string DtypeName(xla::ffi::DataType dtype) {
  switch (dtype) {
#define XLA_FFI_KIT_NAME(dtype, name, ...) \
  case xla::ffi::DataType::dtype:          \
    return name;
    XLA_FFI_KIT_DTYPES(XLA_FFI_KIT_NAME)
#undef XLA_FFI_KIT_NAME
    case xla::ffi::DataType::TOKEN:
      return "token";
    default:
      return "dtype " + std::to_string(static_cast<int>(dtype));
  }
}

}  // namespace xla_ffi_kit

#endif  // XLA_FFI_CORE_DTYPE_NAME_H_
