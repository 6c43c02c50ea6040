// Arrays of complex numbers as arrays of real ones.
//
// (real, imaginary) pairs are what C++ and XLA store, so that one kernel on the
// components often serves real and complex types: the sum of |x|^2 over n
// complex numbers is the sum of squares of 2n components.

#ifndef XLA_FFI_CORE_COMPONENTS_H_
#define XLA_FFI_CORE_COMPONENTS_H_

#include <complex>

namespace xla_ffi_kit {
namespace components_internal {

template <typename T>
struct Components {
  using type = T;
  static constexpr int kCount = 1;
};
template <typename T>
struct Components<std::complex<T>> {
  using type = T;
  static constexpr int kCount = 2;
};

}  // namespace components_internal

// float for complex<float>, double for complex<double>, else T itself.
template <typename T>
using ComponentType = typename components_internal::Components<T>::type;

// Components per element: 2 for complex types, else 1.
template <typename T>
inline constexpr int kComponents = components_internal::Components<T>::kCount;

template <typename T>
const ComponentType<T>* AsComponents(const T* p) {
  return reinterpret_cast<const ComponentType<T>*>(p);
}
template <typename T>
ComponentType<T>* AsComponents(T* p) {
  return reinterpret_cast<ComponentType<T>*>(p);
}

}  // namespace xla_ffi_kit

#endif  // XLA_FFI_CORE_COMPONENTS_H_
