// The 16-bit floats of strings, and what arrays are computed in; on CPUs and on
// CUDA devices.

#ifndef XLA_FFI_STRINGS_HALF_H_
#define XLA_FFI_STRINGS_HALF_H_

#include "xla_ffi/core/half.h"
#include "xla_ffi/core/host_device.h"

namespace kit {

// A 16-bit float in an expression is a float; assigning one rounds it.
template <typename Storage>
struct Half : Storage {
  using Storage::Storage;
  // From integers alone: they are the types in which 0.5 is not 0.5. Without
  // this conversion `c ? x : 0` would be an integer, in silence; with it, C++
  // has two conversions to choose from, and the expression does not compile.
  template <typename Integer, int = 1 / (static_cast<Integer>(0.5f) != 0.5f)>
  // NOLINTNEXTLINE(google-explicit-constructor): see above
  XLA_FFI_KIT_HOST_DEVICE Half(Integer value)
      : Storage(static_cast<float>(value)) {}
  XLA_FFI_KIT_HOST_DEVICE Half& operator=(float value) {
    return *this = Half(value);
  }
  XLA_FFI_KIT_HOST_DEVICE Half& operator+=(float b) {
    return *this = *this + b;
  }
  XLA_FFI_KIT_HOST_DEVICE Half& operator-=(float b) {
    return *this = *this - b;
  }
  XLA_FFI_KIT_HOST_DEVICE Half& operator*=(float b) {
    return *this = *this * b;
  }
  XLA_FFI_KIT_HOST_DEVICE Half& operator/=(float b) {
    return *this = *this / b;
  }
  // NOLINTNEXTLINE(google-explicit-constructor): numbers convert implicitly
  XLA_FFI_KIT_HOST_DEVICE operator float() const {
    return Storage::operator float();
  }
};
using bf16 = Half<xla_ffi_kit::BFloat16>;
using f16 = Half<xla_ffi_kit::Float16>;

// The type in which sums and products of T's are computed: float for 16-bit
// floats.
template <typename T>
struct Accumulation {
  using type = T;
};
template <typename Storage>
struct Accumulation<Half<Storage>> {
  using type = float;
};
template <typename T>
using Accumulate = typename Accumulation<T>::type;

}  // namespace kit

#endif  // XLA_FFI_STRINGS_HALF_H_
