// The element types of operands, results and attributes, and how XLA calls
// them.

#ifndef XLA_FFI_STRINGS_TYPES_H_
#define XLA_FFI_STRINGS_TYPES_H_

#include <cstdint>
#include <type_traits>

#include "xla/ffi/api/c_api.h"
#include "xla_ffi/strings/half.h"  // IWYU pragma: export

namespace kit {

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
template <>
inline constexpr XLA_FFI_DataType kDataType<bool> = XLA_FFI_DataType_PRED;
template <>
inline constexpr XLA_FFI_DataType kDataType<int8_t> = XLA_FFI_DataType_S8;
template <>
inline constexpr XLA_FFI_DataType kDataType<int16_t> = XLA_FFI_DataType_S16;
template <>
inline constexpr XLA_FFI_DataType kDataType<int32_t> = XLA_FFI_DataType_S32;
template <>
inline constexpr XLA_FFI_DataType kDataType<int64_t> = XLA_FFI_DataType_S64;
template <>
inline constexpr XLA_FFI_DataType kDataType<uint8_t> = XLA_FFI_DataType_U8;
template <>
inline constexpr XLA_FFI_DataType kDataType<uint16_t> = XLA_FFI_DataType_U16;
template <>
inline constexpr XLA_FFI_DataType kDataType<uint32_t> = XLA_FFI_DataType_U32;
template <>
inline constexpr XLA_FFI_DataType kDataType<uint64_t> = XLA_FFI_DataType_U64;
template <>
inline constexpr XLA_FFI_DataType kDataType<f16> = XLA_FFI_DataType_F16;
template <>
inline constexpr XLA_FFI_DataType kDataType<bf16> = XLA_FFI_DataType_BF16;
template <>
inline constexpr XLA_FFI_DataType kDataType<float> = XLA_FFI_DataType_F32;
template <>
inline constexpr XLA_FFI_DataType kDataType<double> = XLA_FFI_DataType_F64;

// HLO's name of a type, for messages.
inline const char* TypeName(int type) {
  switch (type) {
    case XLA_FFI_DataType_PRED:
      return "pred";
    case XLA_FFI_DataType_S8:
      return "s8";
    case XLA_FFI_DataType_S16:
      return "s16";
    case XLA_FFI_DataType_S32:
      return "s32";
    case XLA_FFI_DataType_S64:
      return "s64";
    case XLA_FFI_DataType_U8:
      return "u8";
    case XLA_FFI_DataType_U16:
      return "u16";
    case XLA_FFI_DataType_U32:
      return "u32";
    case XLA_FFI_DataType_U64:
      return "u64";
    case XLA_FFI_DataType_F16:
      return "f16";
    case XLA_FFI_DataType_BF16:
      return "bf16";
    case XLA_FFI_DataType_F32:
      return "f32";
    case XLA_FFI_DataType_F64:
      return "f64";
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
