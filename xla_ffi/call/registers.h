// Calls a C function of any mix of integers, addresses, floats and doubles.
//
// On x86-64 (System V) and ARM64 the first six integers and addresses go into
// general registers, and the first eight floats into others, each counted for
// itself: f(int, double, int) finds its arguments where f(int, int, double)
// does. So a call of
//
//   R f(int64_t... integers, double... floats)
//
// with the arguments of each kind in their order calls any function that has no
// more of them, and registers that it does not read may hold anything. There is
// no list of types to compile, and no libffi. What narrower types need:
//
//   * an integer is extended to 64 bits, as callees may expect of 8 and 16;
//   * a float is the low half of a register: of a double of these bits;
//   * of what is returned, the bytes that the type has are read.

#ifndef XLA_FFI_CALL_REGISTERS_H_
#define XLA_FFI_CALL_REGISTERS_H_

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#if !defined(__LP64__) || (!defined(__x86_64__) && !defined(__aarch64__))
#error "xla_ffi/call knows the registers of 64-bit x86 and ARM only"
#endif

namespace xla_ffi_kit::call {

inline constexpr size_t kMostInts = 6;
inline constexpr size_t kMostFloats = 8;

// A column has the arguments of some calls, one after the other.
using Ints = const int64_t* const*;
using Floats = const double* const*;

// Calls a function once for each of `count` rows of the columns, and writes
// what it returns: `out` has 8 bytes for each.
using CallRows = void(const void* function, Ints ints, Floats floats,
                      int64_t count, void* out) noexcept;

namespace registers_internal {

template <typename T, size_t>
using Repeated = T;

template <typename R, size_t... kInts, size_t... kFloats>
void Call(std::index_sequence<kInts...>, std::index_sequence<kFloats...>,
          const void* function, Ints ints, Floats floats, int64_t count,
          void* out) noexcept {
  using Function = R(Repeated<int64_t, kInts>..., Repeated<double, kFloats>...);
  auto* const call = reinterpret_cast<Function*>(const_cast<void*>(function));
  auto* const returned = static_cast<R*>(out);
  for (int64_t i = 0; i < count; ++i) {
    returned[i] = call(ints[kInts][i]..., floats[kFloats][i]...);
  }
}

template <typename R, size_t kInts, size_t kFloats>
void CallWith(const void* function, Ints ints, Floats floats, int64_t count,
              void* out) noexcept {
  Call<R>(std::make_index_sequence<kInts>(),
          std::make_index_sequence<kFloats>(), function, ints, floats, count,
          out);
}

template <size_t kInts, size_t kFloats>
CallRows* CallOf(bool returns_float) {
  return returns_float ? CallWith<double, kInts, kFloats>
                       : CallWith<int64_t, kInts, kFloats>;
}

template <size_t kInts>
CallRows* WithInts(size_t floats, bool returns_float) {
  switch (floats) {
    case 0:
      return CallOf<kInts, 0>(returns_float);
    case 1:
      return CallOf<kInts, 1>(returns_float);
    case 2:
      return CallOf<kInts, 2>(returns_float);
    case 3:
      return CallOf<kInts, 3>(returns_float);
    case 4:
      return CallOf<kInts, 4>(returns_float);
    default:
      return CallOf<kInts, kMostFloats>(returns_float);
  }
}

}  // namespace registers_internal

// The loop for a function of so many arguments, at most kMostInts and
// kMostFloats. It may read columns up to those numbers.
inline CallRows* FindCall(size_t ints, size_t floats, bool returns_float) {
  using registers_internal::WithInts;
  switch (ints) {
    case 0:
      return WithInts<0>(floats, returns_float);
    case 1:
      return WithInts<1>(floats, returns_float);
    case 2:
      return WithInts<2>(floats, returns_float);
    default:
      return WithInts<kMostInts>(floats, returns_float);
  }
}

}  // namespace xla_ffi_kit::call

#endif  // XLA_FFI_CALL_REGISTERS_H_
