// <cstdint>, <type_traits>, <limits>, <utility>, <array> for NVRTC, which has
// std::move, std::forward and std::initializer_list built in.

#ifndef XLA_FFI_STRINGS_CUDA_STANDARD_TYPES_H_
#define XLA_FFI_STRINGS_CUDA_STANDARD_TYPES_H_

using int8_t = signed char;
using int16_t = short;
using int32_t = int;
using int64_t = long long;
using uint8_t = unsigned char;
using uint16_t = unsigned short;
using uint32_t = unsigned int;
using uint64_t = unsigned long long;
using intptr_t = long long;
using uintptr_t = unsigned long long;

#define INT8_MAX 127
#define INT16_MAX 32767
#define INT32_MAX 2147483647
#define INT64_MAX 9223372036854775807LL
#define INT8_MIN (-INT8_MAX - 1)
#define INT16_MIN (-INT16_MAX - 1)
#define INT32_MIN (-INT32_MAX - 1)
#define INT64_MIN (-INT64_MAX - 1)
#define UINT8_MAX 255
#define UINT16_MAX 65535
#define UINT32_MAX 4294967295U
#define UINT64_MAX 18446744073709551615ULL
#define CHAR_BIT 8
#define INT_MAX INT32_MAX
#define INT_MIN INT32_MIN
#define UINT_MAX UINT32_MAX
#define LLONG_MAX INT64_MAX
#define LLONG_MIN INT64_MIN
#define FLT_MAX 3.40282346638528859812e+38f
#define FLT_MIN 1.17549435082228750797e-38f
#define FLT_EPSILON 1.1920928955078125e-7f
#define DBL_MAX 1.79769313486231570815e+308
#define DBL_MIN 2.22507385850720138309e-308
#define DBL_EPSILON 2.22044604925031308085e-16
#define INFINITY (__builtin_bit_cast(float, 0x7f800000))
#define NAN (__builtin_bit_cast(float, 0x7fc00000))
#define M_E 2.7182818284590452354
#define M_LN2 0.69314718055994530942
#define M_PI 3.14159265358979323846
#define M_PI_2 1.57079632679489661923
#define M_SQRT2 1.41421356237309504880
#define M_SQRT1_2 0.70710678118654752440

namespace std {

using ::int16_t;
using ::int32_t;
using ::int64_t;
using ::int8_t;
using ::intptr_t;
using ::size_t;
using ::uint16_t;
using ::uint32_t;
using ::uint64_t;
using ::uint8_t;
using ::uintptr_t;
using ptrdiff_t = long long;
using nullptr_t = decltype(nullptr);

// --- <type_traits> -----------------------------------------------------------

template <typename T, T v>
struct integral_constant {
  static constexpr T value = v;
  using value_type = T;
  constexpr operator T() const { return v; }
};
template <bool v>
using bool_constant = integral_constant<bool, v>;
using true_type = bool_constant<true>;
using false_type = bool_constant<false>;

template <bool condition, typename T = void>
struct enable_if {};
template <typename T>
struct enable_if<true, T> {
  using type = T;
};
template <bool condition, typename T = void>
using enable_if_t = typename enable_if<condition, T>::type;

template <bool condition, typename T, typename F>
struct conditional {
  using type = T;
};
template <typename T, typename F>
struct conditional<false, T, F> {
  using type = F;
};
template <bool condition, typename T, typename F>
using conditional_t = typename conditional<condition, T, F>::type;

#define KIT_REMOVE(name, what) \
  template <typename T>        \
  struct name {                \
    using type = T;            \
  };                           \
  template <typename T>        \
  struct name<what> {          \
    using type = T;            \
  };                           \
  template <typename T>        \
  using name##_t = typename name<T>::type;
KIT_REMOVE(remove_const, const T)
KIT_REMOVE(remove_volatile, volatile T)
KIT_REMOVE(remove_pointer, T*)
#undef KIT_REMOVE

template <typename T>
struct remove_reference {
  using type = T;
};
template <typename T>
struct remove_reference<T&> {
  using type = T;
};
template <typename T>
struct remove_reference<T&&> {
  using type = T;
};
template <typename T>
using remove_reference_t = typename remove_reference<T>::type;
template <typename T>
struct remove_cv {
  using type = remove_const_t<remove_volatile_t<T>>;
};
template <typename T>
using remove_cv_t = typename remove_cv<T>::type;
// Handles types other than arrays and functions.
template <typename T>
struct decay {
  using type = remove_cv_t<remove_reference_t<T>>;
};
template <typename T>
using decay_t = typename decay<T>::type;
template <typename...>
using void_t = void;
template <typename T>
T&& declval() noexcept;

#define KIT_TRAIT(name, expression)            \
  template <typename T>                        \
  inline constexpr bool name##_v = expression; \
  template <typename T>                        \
  struct name : bool_constant<expression> {};

template <typename T, typename U>
inline constexpr bool is_same_v = false;
template <typename T>
inline constexpr bool is_same_v<T, T> = true;
template <typename T, typename U>
struct is_same : bool_constant<is_same_v<T, U>> {};

namespace kit_internal {
template <typename T, typename... Others>
inline constexpr bool is_one_of = (is_same_v<remove_cv_t<T>, Others> || ...);
}  // namespace kit_internal

KIT_TRAIT(is_floating_point, (kit_internal::is_one_of<T, float, double>))
KIT_TRAIT(
    is_integral,
    (kit_internal::is_one_of<T, bool, char, signed char, unsigned char, short,
                             unsigned short, int, unsigned, long, unsigned long,
                             long long, unsigned long long>))
KIT_TRAIT(is_arithmetic, (is_floating_point_v<T> || is_integral_v<T>))
KIT_TRAIT(is_unsigned, (is_integral_v<T> && T(-1) > T(0)))
KIT_TRAIT(is_signed, (is_arithmetic_v<T> && !is_unsigned<T>::value))
KIT_TRAIT(is_void, (is_same_v<remove_cv_t<T>, void>))
#undef KIT_TRAIT

namespace kit_internal {
// The one of four types that has the size of T: 1, 2, 4 or 8 bytes.
template <typename T, typename A, typename B, typename C, typename D>
using of_size = conditional_t<
    sizeof(T) == 1, A,
    conditional_t<sizeof(T) == 2, B, conditional_t<sizeof(T) == 4, C, D>>>;
}  // namespace kit_internal

template <typename T>
struct make_unsigned {
  using type = kit_internal::of_size<T, uint8_t, uint16_t, uint32_t, uint64_t>;
};
template <typename T>
using make_unsigned_t = typename make_unsigned<T>::type;
template <typename T>
struct make_signed {
  using type = kit_internal::of_size<T, int8_t, int16_t, int32_t, int64_t>;
};
template <typename T>
using make_signed_t = typename make_signed<T>::type;

template <typename... T>
struct common_type {
  using type = decltype((declval<T>() + ...));
};
template <typename... T>
using common_type_t = typename common_type<T...>::type;

// --- <limits> ----------------------------------------------------------------

template <typename T>
struct numeric_limits {
  static constexpr bool is_specialized = is_integral_v<T>;
  static constexpr bool is_integer = true, is_exact = true;
  static constexpr bool is_signed = std::is_signed_v<T>;
  static constexpr bool has_infinity = false, has_quiet_NaN = false;
  static constexpr int digits =
      is_same_v<T, bool> ? 1 : static_cast<int>(8 * sizeof(T)) - is_signed;
  static constexpr T max() {
    return static_cast<T>(~static_cast<uint64_t>(0) >> (64 - digits));
  }
  static constexpr T min() {
    return is_signed ? static_cast<T>(-max() - 1) : T(0);
  }
  static constexpr T lowest() { return min(); }
  static constexpr T epsilon() { return T(0); }
};

#define KIT_LIMITS(T, bits, smallest, largest, step, inf, nan)       \
  template <>                                                        \
  struct numeric_limits<T> {                                         \
    static constexpr bool is_specialized = true;                     \
    static constexpr bool is_integer = false, is_exact = false;      \
    static constexpr bool is_signed = true;                          \
    static constexpr bool has_infinity = true, has_quiet_NaN = true; \
    static constexpr int digits = bits;                              \
    static constexpr T min() { return smallest; }                    \
    static constexpr T max() { return largest; }                     \
    static constexpr T lowest() { return -largest; }                 \
    static constexpr T epsilon() { return step; }                    \
    static constexpr T infinity() { return inf; }                    \
    static constexpr T quiet_NaN() { return nan; }                   \
  };
KIT_LIMITS(float, 24, FLT_MIN, FLT_MAX, FLT_EPSILON,
           __builtin_bit_cast(float, 0x7f800000),
           __builtin_bit_cast(float, 0x7fc00000))
KIT_LIMITS(double, 53, DBL_MIN, DBL_MAX, DBL_EPSILON,
           __builtin_bit_cast(double, 0x7ff0000000000000LL),
           __builtin_bit_cast(double, 0x7ff8000000000000LL))
#undef KIT_LIMITS

// --- <utility>, <array> ------------------------------------------------------

template <typename T>
constexpr void swap(T& a, T& b) {
  T first = a;
  a = b;
  b = first;
}
template <typename T, typename U = T>
constexpr T exchange(T& object, U&& value) {
  T before = object;
  object = static_cast<U&&>(value);
  return before;
}

template <typename A, typename B>
struct pair {
  A first;
  B second;
};
template <typename A, typename B>
pair(A, B) -> pair<A, B>;
template <typename A, typename B>
constexpr pair<A, B> make_pair(A first, B second) {
  return {first, second};
}

template <typename T, size_t n>
struct array {
  T elements[n == 0 ? 1 : n];

  constexpr size_t size() const { return n; }
  constexpr T& operator[](size_t i) { return elements[i]; }
  constexpr const T& operator[](size_t i) const { return elements[i]; }
  constexpr T* data() { return elements; }
  constexpr const T* data() const { return elements; }
  constexpr T* begin() { return elements; }
  constexpr const T* begin() const { return elements; }
  constexpr T* end() { return elements + n; }
  constexpr const T* end() const { return elements + n; }
  constexpr void fill(const T& value) {
    for (T& element : elements) element = value;
  }
};

}  // namespace std

#endif  // XLA_FFI_STRINGS_CUDA_STANDARD_TYPES_H_
