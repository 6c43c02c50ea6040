#include "xla_ffi/ops/relu/relu.h"

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "xla_ffi/core/half.h"

namespace xla_ffi_kit {
namespace {

// Floats are compared as signed integers: the patterns from -0.0 to -infinity
// are the lowest ones, above them come the NaNs with the sign set, which stay.
// One comparison, no branch, whatever the thread does with denormals.
template <typename Int>
Int ReluBits(Int bits, Int minus_infinity) {
  return bits <= minus_infinity ? 0 : bits;
}

template <typename T>
struct Bits;
template <>
struct Bits<Float16> {
  using type = int16_t;
  static constexpr uint16_t kMinusInfinity = 0xfc00;
};
template <>
struct Bits<BFloat16> {
  using type = int16_t;
  static constexpr uint16_t kMinusInfinity = 0xff80;
};
template <>
struct Bits<float> {
  using type = int32_t;
  static constexpr uint32_t kMinusInfinity = 0xff800000;
};
template <>
struct Bits<double> {
  using type = int64_t;
  static constexpr uint64_t kMinusInfinity = 0xfff0000000000000;
};

}  // namespace

template <typename T>
void Relu(const T* x, int64_t count, T* y) {
  for (int64_t i = 0; i < count; ++i) {
    if constexpr (std::is_integral_v<T>) {
      y[i] = x[i] > 0 ? x[i] : 0;
    } else {
      using Int = typename Bits<T>::type;
      Int bits;
      std::memcpy(&bits, x + i, sizeof(bits));
      bits = ReluBits(bits, static_cast<Int>(Bits<T>::kMinusInfinity));
      std::memcpy(static_cast<void*>(y + i), &bits, sizeof(bits));
    }
  }
}

#define XLA_FFI_KIT_INSTANTIATE(T) template void Relu(const T*, int64_t, T*)
XLA_FFI_KIT_INSTANTIATE(Float16);
XLA_FFI_KIT_INSTANTIATE(BFloat16);
XLA_FFI_KIT_INSTANTIATE(float);
XLA_FFI_KIT_INSTANTIATE(double);
XLA_FFI_KIT_INSTANTIATE(int8_t);
XLA_FFI_KIT_INSTANTIATE(int16_t);
XLA_FFI_KIT_INSTANTIATE(int32_t);
XLA_FFI_KIT_INSTANTIATE(int64_t);
#undef XLA_FFI_KIT_INSTANTIATE

}  // namespace xla_ffi_kit
