// XLA's short names of data types ("f32"), for messages.

#ifndef XLA_FFI_CORE_DTYPE_NAME_H_
#define XLA_FFI_CORE_DTYPE_NAME_H_

#include <string>

#include "xla/ffi/api/ffi.h"

namespace xla_ffi_kit {

// The name HLO text uses. A type that the FFI headers of this build do not
// know yet, because the running XLA is newer, is named by its number.
inline std::string DtypeName(xla::ffi::DataType dtype) {
  using xla::ffi::DataType;
  switch (dtype) {
    case DataType::PRED:
      return "pred";
    case DataType::S8:
      return "s8";
    case DataType::S16:
      return "s16";
    case DataType::S32:
      return "s32";
    case DataType::S64:
      return "s64";
    case DataType::U8:
      return "u8";
    case DataType::U16:
      return "u16";
    case DataType::U32:
      return "u32";
    case DataType::U64:
      return "u64";
    case DataType::F16:
      return "f16";
    case DataType::BF16:
      return "bf16";
    case DataType::F32:
      return "f32";
    case DataType::F64:
      return "f64";
    case DataType::C64:
      return "c64";
    case DataType::C128:
      return "c128";
    case DataType::TOKEN:
      return "token";
    default:
      // 4- and 8-bit types too: no operation takes them, so that a number in
      // an error message is enough.
      return "dtype " + std::to_string(static_cast<int>(dtype));
  }
}

}  // namespace xla_ffi_kit

#endif  // XLA_FFI_CORE_DTYPE_NAME_H_
