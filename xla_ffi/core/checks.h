// The errors of a handler, which all have one form,
//
//   xla_ffi_kit.rms_norm: operand x: expected rank >= 1, got rank 0
//
// because XLA itself names neither the operation nor the argument; names of
// dtypes and shapes for them; and the choice of a C++ type by a dtype.

#ifndef XLA_FFI_CORE_CHECKS_H_
#define XLA_FFI_CORE_CHECKS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "xla/ffi/api/ffi.h"
#include "xla_ffi/core/dtypes.h"
#include "xla_ffi/core/host_scratch.h"

// Returns from the calling function if `expression`, an xla::ffi::Error, is an
// error:
//
//   XLA_FFI_KIT_RETURN_IF_ERROR(CheckShapes(call));
#define XLA_FFI_KIT_RETURN_IF_ERROR(...)                     \
  do {                                                       \
    if (::xla::ffi::Error xla_ffi_kit_error = (__VA_ARGS__); \
        xla_ffi_kit_error.failure()) {                       \
      return xla_ffi_kit_error;                              \
    }                                                        \
  } while (false)

namespace xla_ffi_kit {

namespace dtype_internal {

// Replaces the FFI's own mapping, in which all 16-bit floats are uint16_t.
template <typename T>
struct DtypeOf;

#define XLA_FFI_KIT_DTYPE_OF(dtype, name, T, ...)                          \
  template <>                                                              \
  struct DtypeOf<T> {                                                      \
    static constexpr xla::ffi::DataType value = xla::ffi::DataType::dtype; \
  };
XLA_FFI_KIT_DTYPES(XLA_FFI_KIT_DTYPE_OF)
#undef XLA_FFI_KIT_DTYPE_OF

}  // namespace dtype_internal

// XLA's name of the C++ type T.
template <typename T>
inline constexpr xla::ffi::DataType kDtypeOf =
    dtype_internal::DtypeOf<T>::value;

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

using Dimensions = xla::ffi::Span<const int64_t>;

// A place in an operation's signature: {"xla_ffi_kit.relu", "operand x"}.
struct Place {
  std::string_view operation;
  std::string_view argument;
};

inline xla::ffi::Error InvalidArgument(const Place& where,
                                       std::string_view expected,
                                       std::string_view got) {
  std::string message;
  message.append(where.operation).append(": ").append(where.argument);
  message.append(": expected ").append(expected).append(", got ").append(got);
  return xla::ffi::Error::InvalidArgument(std::move(message));
}

// Returns RESOURCE_EXHAUSTED for missing scratch memory. The message says how
// much was needed, what for, and what to do: "to sort rows of 8 elements",
// "sort fewer at a time".
inline xla::ffi::Error ScratchExhausted(
    std::string_view operation, std::string_view purpose,
    const ScratchStatus& status,
    std::string_view remedy = "free memory, or use fewer threads") {
  std::string message(operation);
  message.append(": failed to allocate scratch memory ").append(purpose);
  message.append(": ").append(std::to_string(status.missing_bytes));
  message.append(" bytes; ").append(remedy);
  return {xla::ffi::ErrorCode::kResourceExhausted, std::move(message)};
}

// "(2, 3)"; "()" for rank 0.
inline std::string ShapeText(Dimensions dims) {
  std::string text = "(";
  for (size_t i = 0; i < dims.size(); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(dims[i]);
  }
  return text + ")";
}

// Returns fn(TypeTag<T>()) for the type T of the list that `dtype` names, or
// an error about `where` that lists the types there are:
//
//   const Place where = {kOp, "operand x"};
//   return DispatchDtype(RealFloatTypes(), dtype, where, [&](auto tag) {
//     return Run<typename decltype(tag)::type>(x, y);
//   });
template <typename... Ts, typename Fn>
xla::ffi::Error DispatchDtype(TypeList<Ts...>, xla::ffi::DataType dtype,
                              const Place& where, Fn&& fn) {
  xla::ffi::Error error;
  const bool is_known =
      ((kDtypeOf<Ts> == dtype && (error = fn(TypeTag<Ts>()), true)) || ...);
  if (is_known) return error;
  std::string names;
  ((names += (names.empty() ? "" : ", ") + DtypeName(kDtypeOf<Ts>)), ...);
  return InvalidArgument(where, "one of the dtypes " + names, DtypeName(dtype));
}

}  // namespace xla_ffi_kit

#endif  // XLA_FFI_CORE_CHECKS_H_
