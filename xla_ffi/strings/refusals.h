// What compilers refuse of numbers that are not floats: those in lanes, of
// lanes.h, and those that know their derivatives, of numbers.h. Such a number
// is a class that is not trivially copyable, whose bytes are not a float's.

#ifndef XLA_FFI_STRINGS_REFUSALS_H_
#define XLA_FFI_STRINGS_REFUSALS_H_

#ifndef __CUDACC_RTC__
#include <cstddef>
#include <cstring>
#include <type_traits>

// What would be a warning is an error in a string: a copy of bytes, a reference
// to what is gone, and printf of a number.
#ifdef __clang__
#pragma clang diagnostic error "-Wdangling"
#pragma clang diagnostic error "-Wformat"
#pragma clang diagnostic error "-Wframe-larger-than"
#pragma clang diagnostic error "-Wreturn-stack-address"
#if __has_warning("-Wnontrivial-memcall")
#pragma clang diagnostic error "-Wnontrivial-memcall"
#endif
#else
#pragma GCC diagnostic error "-Wclass-memaccess"
#pragma GCC diagnostic error "-Wformat"
#pragma GCC diagnostic error "-Wreturn-local-addr"
#if __GNUC__ >= 12
#pragma GCC diagnostic error "-Wdangling-pointer"
#endif
#if __GNUC__ >= 13
#pragma GCC diagnostic error "-Wdangling-reference"
#endif
#endif

namespace kit {

// Where such a number is: what & of it gives. It becomes a pointer to a number
// of its own type, and to no other, nor to bytes.
template <typename X>
class Address {
 public:
  explicit Address(X* at) : at_(at) {}
  // NOLINTNEXTLINE(google-explicit-constructor): it stands for a pointer
  operator X*() const { return at_; }
  template <
      typename Y,
      std::enable_if_t<
          !std::is_same_v<std::remove_cv_t<Y>, std::remove_cv_t<X>>, int> = 0>
  operator Y*() const = delete;

 private:
  X* at_;
};

// Not every compiler warns where bytes are read, and clang before 20 does not
// at all: so these functions, which are deleted, are the better match.
template <typename X>
using IfNoBytes = std::enable_if_t<
    !std::is_trivially_copyable_v<std::remove_all_extents_t<X>>, int>;

#define KIT_REFUSE_COPY(name)                                     \
  template <typename X, IfNoBytes<X> = 0>                         \
  void* name(X*, const void*, size_t) = delete;                   \
  template <typename X, IfNoBytes<X> = 0>                         \
  void* name(void*, const X*, size_t) = delete;                   \
  template <typename X, typename Y, IfNoBytes<X> = 0>             \
  void* name(X*, const Y*, size_t) = delete;                      \
  template <typename X, typename Y, IfNoBytes<Y> = 0, int kY = 0> \
  void* name(X*, const Y*, size_t) = delete;
KIT_REFUSE_COPY(memcpy)
KIT_REFUSE_COPY(memmove)
#undef KIT_REFUSE_COPY
template <typename X, IfNoBytes<X> = 0>
void* memset(X*, int, size_t) = delete;
template <typename X, typename Y, IfNoBytes<X> = 0>
int memcmp(const X*, const Y*, size_t) = delete;

}  // namespace kit

namespace std {
using kit::memcmp, kit::memcpy, kit::memmove, kit::memset;
}  // namespace std
using kit::memcmp, kit::memcpy, kit::memmove, kit::memset;

#endif  // __CUDACC_RTC__

#endif  // XLA_FFI_STRINGS_REFUSALS_H_
