// The data types of arrays. XLA's type, its name in messages, the accumulation
// type and the order of keys follow from one line for each type. The lists of
// types that operations take are here, too. Nothing here needs XLA, so kernels
// may include it.

#ifndef XLA_FFI_CORE_DTYPES_H_
#define XLA_FFI_CORE_DTYPES_H_

#include <complex>
#include <cstdint>
#include <type_traits>

#include "xla_ffi/core/half.h"

// X(XLA's DataType, name in HLO, C++ type, its AccumulationType, fraction bits)
//
// A float's bits are its sign, its exponent and that many bits of the fraction.
// The largest exponent is that of infinity and NaN, as in IEEE 754.
#define XLA_FFI_KIT_DTYPES(X)                   \
  X(PRED, "pred", bool, bool, 0)                \
  X(S8, "s8", int8_t, int8_t, 0)                \
  X(S16, "s16", int16_t, int16_t, 0)            \
  X(S32, "s32", int32_t, int32_t, 0)            \
  X(S64, "s64", int64_t, int64_t, 0)            \
  X(U8, "u8", uint8_t, uint8_t, 0)              \
  X(U16, "u16", uint16_t, uint16_t, 0)          \
  X(U32, "u32", uint32_t, uint32_t, 0)          \
  X(U64, "u64", uint64_t, uint64_t, 0)          \
  X(F8E5M2, "f8e5m2", Float8E5M2, float, 2)     \
  X(F16, "f16", Float16, float, 10)             \
  X(BF16, "bf16", BFloat16, float, 7)           \
  X(F32, "f32", float, float, 23)               \
  X(F64, "f64", double, double, 52)             \
  X(C64, "c64", std::complex<float>, float, 23) \
  X(C128, "c128", std::complex<double>, double, 52)

namespace xla_ffi_kit {

// Carries a type as a value.
template <typename T>
struct TypeTag {
  using type = T;
};

template <typename... Ts>
struct TypeList {};

using RealFloatTypes = TypeList<Float16, BFloat16, float, double>;
using FloatTypes = TypeList<Float16, BFloat16, float, double,
                            std::complex<float>, std::complex<double>>;
using IntegerTypes = TypeList<int8_t, int16_t, int32_t, int64_t, uint8_t,
                              uint16_t, uint32_t, uint64_t>;
using SignedTypes = TypeList<Float8E5M2, Float16, BFloat16, float, double,
                             int8_t, int16_t, int32_t, int64_t>;
using RealTypes =
    TypeList<Float16, BFloat16, float, double, int8_t, int16_t, int32_t,
             int64_t, uint8_t, uint16_t, uint32_t, uint64_t>;
using NumberTypes =
    TypeList<Float16, BFloat16, float, double, std::complex<float>,
             std::complex<double>, int8_t, int16_t, int32_t, int64_t, uint8_t,
             uint16_t, uint32_t, uint64_t>;

namespace dtype_internal {

template <typename T>
struct Traits {
  using Accumulation = T;
};

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

#define XLA_FFI_KIT_TRAITS(dtype, name, T, A, fraction_bits) \
  template <>                                                \
  struct Traits<T> {                                         \
    using Accumulation = A;                                  \
    static constexpr int kFractionBits = fraction_bits;      \
  };
XLA_FFI_KIT_DTYPES(XLA_FFI_KIT_TRAITS)
#undef XLA_FFI_KIT_TRAITS

}  // namespace dtype_internal

// The type in which an operation adds and multiplies T's. For floats it is real
// and has at least 32 bits: float for Float16, BFloat16, float and
// complex<float>; double for double and complex<double>. Otherwise it is T.
template <typename T>
using AccumulationType = typename dtype_internal::Traits<T>::Accumulation;

// The unsigned integer type of T's size.
template <typename T>
using BitsOf =
    std::conditional_t<sizeof(T) <= 2,
                       std::conditional_t<sizeof(T) == 1, uint8_t, uint16_t>,
                       std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>>;

// The bits of a float's sign, of its smallest normal number and of infinity:
// above it, up to the sign, are NaNs.
template <typename T>
inline constexpr auto kSignBit =
    static_cast<BitsOf<T>>(BitsOf<T>{1} << (8 * sizeof(T) - 1));
template <typename T>
inline constexpr auto kMinNormalBits = static_cast<BitsOf<T>>(
    BitsOf<T>{1} << dtype_internal::Traits<T>::kFractionBits);
template <typename T>
inline constexpr auto kInfinityBits =
    static_cast<BitsOf<T>>(kSignBit<T> - kMinNormalBits<T>);

// --- Complex numbers as pairs of real ones -----------------------------------
//
// (real, imaginary) pairs are what C++ and XLA store, so that one kernel on the
// components often serves real and complex types: the sum of |x|^2 over n
// complex numbers is the sum of squares of 2n components.

// float for complex<float>, double for complex<double>, else T itself.
template <typename T>
using ComponentType = typename dtype_internal::Components<T>::type;

// Components per element: 2 for complex types, else 1.
template <typename T>
inline constexpr int kComponents = dtype_internal::Components<T>::kCount;

}  // namespace xla_ffi_kit

#endif  // XLA_FFI_CORE_DTYPES_H_
