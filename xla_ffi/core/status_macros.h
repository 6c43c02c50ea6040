// Macros that return an error from a handler or a function that it calls.

#ifndef XLA_FFI_CORE_STATUS_MACROS_H_
#define XLA_FFI_CORE_STATUS_MACROS_H_

#include <utility>

#include "xla/ffi/api/ffi.h"

namespace xla_ffi_kit::status_internal {

// An error on its way out of a function that returns Error or ErrorOr<T>.
class Returned {
 public:
  explicit Returned(xla::ffi::Error error) : error_(std::move(error)) {}

  operator xla::ffi::Error() && { return std::move(error_); }  // NOLINT
  template <typename T>
  operator xla::ffi::ErrorOr<T>() && {  // NOLINT
    return xla::ffi::Unexpected(std::move(error_));
  }

 private:
  xla::ffi::Error error_;
};

}  // namespace xla_ffi_kit::status_internal

// Returns from the calling function if `expression`, an xla::ffi::Error, is an
// error:
//
//   XLA_FFI_KIT_RETURN_IF_ERROR(CheckRankAtLeast({kOp, "operand x"}, x, 1));
#define XLA_FFI_KIT_RETURN_IF_ERROR(...)                     \
  do {                                                       \
    if (::xla::ffi::Error xla_ffi_kit_error = (__VA_ARGS__); \
        xla_ffi_kit_error.failure()) {                       \
      return ::xla_ffi_kit::status_internal::Returned(       \
          std::move(xla_ffi_kit_error));                     \
    }                                                        \
  } while (false)

// Declares or assigns the value of an expression of type xla::ffi::ErrorOr<T>,
// or returns its error:
//
//   XLA_FFI_KIT_ASSIGN_OR_RETURN(const auto x, args.get<ffi::AnyBuffer>(0));
#define XLA_FFI_KIT_ASSIGN_OR_RETURN(declaration, ...)              \
  XLA_FFI_KIT_ASSIGN_OR_RETURN_AS_(                                 \
      XLA_FFI_KIT_JOIN_(xla_ffi_kit_value_, __LINE__), declaration, \
      __VA_ARGS__)

#define XLA_FFI_KIT_ASSIGN_OR_RETURN_AS_(value, declaration, ...)              \
  auto value = (__VA_ARGS__);                                                  \
  if (value.has_error()) {                                                     \
    return ::xla_ffi_kit::status_internal::Returned(std::move(value.error())); \
  }                                                                            \
  declaration = *std::move(value)

#define XLA_FFI_KIT_JOIN_(a, b) XLA_FFI_KIT_JOIN_AGAIN_(a, b)
#define XLA_FFI_KIT_JOIN_AGAIN_(a, b) a##b

#endif  // XLA_FFI_CORE_STATUS_MACROS_H_
