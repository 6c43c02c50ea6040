// The element types of operands, results and attributes, and how XLA calls
// them.

#ifndef XLA_FFI_STRINGS_TYPES_H_
#define XLA_FFI_STRINGS_TYPES_H_

#include <cstdint>
#include <type_traits>

#include "xla/ffi/api/c_api.h"
#include "xla_ffi/strings/half.h"  // IWYU pragma: export

namespace kit {

// X(C++ type, XLA's name, HLO's name).
#define KIT_TYPES(X)      \
  X(bool, PRED, "pred")   \
  X(int8_t, S8, "s8")     \
  X(int16_t, S16, "s16")  \
  X(int32_t, S32, "s32")  \
  X(int64_t, S64, "s64")  \
  X(uint8_t, U8, "u8")    \
  X(uint16_t, U16, "u16") \
  X(uint32_t, U32, "u32") \
  X(uint64_t, U64, "u64") \
  X(f16, F16, "f16")      \
  X(bf16, BF16, "bf16")   \
  X(float, F32, "f32")    \
  X(double, F64, "f64")

// That of std::complex, which is a class with imag(): its header takes as long
// to compile as a kernel, and who names the class includes it.
template <typename T>
constexpr XLA_FFI_DataType ComplexType(decltype(T().imag())*) {
  using Real = decltype(T().imag());
  return std::is_same_v<Real, float>    ? XLA_FFI_DataType_C64
         : std::is_same_v<Real, double> ? XLA_FFI_DataType_C128
                                        : XLA_FFI_DataType_INVALID;
}
template <typename T>
constexpr XLA_FFI_DataType ComplexType(...) {
  return XLA_FFI_DataType_INVALID;
}

template <typename T>
inline constexpr bool kIsComplex =
    ComplexType<T>(nullptr) != XLA_FFI_DataType_INVALID;

// XLA's number of a C++ type; INVALID for a type that no array has.
template <typename T>
inline constexpr XLA_FFI_DataType kDataType = ComplexType<T>(nullptr);
#define KIT_DATA_TYPE(T, name, text) \
  template <>                        \
  inline constexpr XLA_FFI_DataType kDataType<T> = XLA_FFI_DataType_##name;
KIT_TYPES(KIT_DATA_TYPE)
#undef KIT_DATA_TYPE

// HLO's name of a type, for messages.
inline const char* TypeName(int type) {
  switch (type) {
#define KIT_TYPE_NAME(T, name, text) \
  case XLA_FFI_DataType_##name:      \
    return text;
    KIT_TYPES(KIT_TYPE_NAME)
#undef KIT_TYPE_NAME
    case XLA_FFI_DataType_C64:
      return "c64";
    case XLA_FFI_DataType_C128:
      return "c128";
    default:
      return "another type";
  }
}

}  // namespace kit

#endif  // XLA_FFI_STRINGS_TYPES_H_
