// The type in which an operation on elements of type T adds and multiplies.

#ifndef XLA_FFI_CORE_ACCUMULATION_TYPE_H_
#define XLA_FFI_CORE_ACCUMULATION_TYPE_H_

#include <complex>

#include "xla_ffi/core/half.h"

namespace xla_ffi_kit {
namespace accumulation_internal {

template <typename T>
struct Accumulation {
  using type = T;
};
template <>
struct Accumulation<Float16> {
  using type = float;
};
template <>
struct Accumulation<BFloat16> {
  using type = float;
};
template <typename T>
struct Accumulation<std::complex<T>> {
  using type = T;
};

}  // namespace accumulation_internal

// Real and at least 32 bits wide: float for Float16, BFloat16, float and
// complex<float>; double for double and complex<double>.
template <typename T>
using AccumulationType = typename accumulation_internal::Accumulation<T>::type;

}  // namespace xla_ffi_kit

#endif  // XLA_FFI_CORE_ACCUMULATION_TYPE_H_
