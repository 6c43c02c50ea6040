// From a data type known at run time to a C++ type known at compile time.
//
//   using Types = TypeList<Float16, BFloat16, float, double>;
//   return DispatchDtype(Types(), x.element_type(), {kOp, "operand x"},
//                        [&](auto tag) {
//     using T = typename decltype(tag)::type;
//     return Run<T>(x, y);
//   });

#ifndef XLA_FFI_CORE_DTYPE_DISPATCH_H_
#define XLA_FFI_CORE_DTYPE_DISPATCH_H_

#include <string>

#include "xla/ffi/api/ffi.h"
#include "xla_ffi/core/checks.h"
#include "xla_ffi/core/dtype_name.h"
#include "xla_ffi/core/dtypes.h"

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

// Returns fn(TypeTag<T>()) for the type T of the list that `dtype` names, or
// an error about `where` that lists the types there are.
template <typename... Ts, typename Fn>
xla::ffi::Error DispatchDtype(TypeList<Ts...>, xla::ffi::DataType dtype,
                              const Place& where, Fn&& fn) {
  xla::ffi::Error error;
  const bool is_known =
      ((kDtypeOf<Ts> == dtype && (error = fn(TypeTag<Ts>()), true)) || ...);
  if (is_known) return error;
  std::string known;
  ((known += (known.empty() ? "" : ", ") + DtypeName(kDtypeOf<Ts>)), ...);
  return InvalidArgument(where, "one of the dtypes " + known, DtypeName(dtype));
}

}  // namespace xla_ffi_kit

#endif  // XLA_FFI_CORE_DTYPE_DISPATCH_H_
