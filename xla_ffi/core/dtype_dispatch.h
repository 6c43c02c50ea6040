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

#include <complex>
#include <cstdint>
#include <string>

#include "xla/ffi/api/ffi.h"
#include "xla_ffi/core/checks.h"
#include "xla_ffi/core/dtype_name.h"
#include "xla_ffi/core/half.h"

namespace xla_ffi_kit {

// Carries a type as a value.
template <typename T>
struct TypeTag {
  using type = T;
};

template <typename... Ts>
struct TypeList {};

// The types of XLA's buffers, grouped as operations take them.
using RealFloatTypes = TypeList<Float16, BFloat16, float, double>;
using FloatTypes = TypeList<Float16, BFloat16, float, double,
                            std::complex<float>, std::complex<double>>;
using SignedTypes = TypeList<Float16, BFloat16, float, double, int8_t, int16_t,
                             int32_t, int64_t>;
using NumberTypes =
    TypeList<Float16, BFloat16, float, double, std::complex<float>,
             std::complex<double>, int8_t, int16_t, int32_t, int64_t, uint8_t,
             uint16_t, uint32_t, uint64_t>;

namespace dtype_internal {

// FFI's own mapping calls both 16-bit floats uint16_t, so the 16-bit types
// need their own.
template <typename T>
struct DtypeOf {
  static constexpr auto value = static_cast<xla::ffi::DataType>(
      xla::ffi::internal::NativeTypeToCApiDataType<T>());
};
template <>
struct DtypeOf<Float16> {
  static constexpr auto value = xla::ffi::DataType::F16;
};
template <>
struct DtypeOf<BFloat16> {
  static constexpr auto value = xla::ffi::DataType::BF16;
};

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
