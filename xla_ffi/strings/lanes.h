// Lanes: one element of each of several rows, in the vectors of the compiler,
// as the numbers of a string of `xla_ffi_kit.rows`.
//
// What cannot be the same for every row does not compile: a branch on data, an
// index from a value, a conversion to one number. Nor does what takes a number
// for a float of C++: its bytes, its address, a double beside a float, which
// C++ would compute in double.

#ifndef XLA_FFI_STRINGS_LANES_H_
#define XLA_FFI_STRINGS_LANES_H_

#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "xla_ffi/strings/half.h"
#include "xla_ffi/strings/refusals.h"
#include "xla_ffi/strings/value.h"

// clang fuses a product and a sum within one expression of the source alone,
// gcc wherever it finds them.
#ifdef __clang__
#define KIT_FUSES _Pragma("clang fp contract(fast)")
#else
#define KIT_FUSES
#endif
#define KIT_INLINE inline __attribute__((always_inline))

namespace kit {

template <typename F>
struct VectorOf;
template <>
struct VectorOf<float> {
  typedef float type __attribute__((vector_size(kVectorBytes)));
  // In memory that is aligned for floats, as that of any allocator.
  typedef float stored
      __attribute__((vector_size(kVectorBytes), aligned(alignof(float))));
  typedef int32_t ints __attribute__((vector_size(kVectorBytes)));
};
template <>
struct VectorOf<double> {
  typedef double type __attribute__((vector_size(kVectorBytes)));
  typedef double stored
      __attribute__((vector_size(kVectorBytes), aligned(alignof(double))));
  typedef int64_t ints __attribute__((vector_size(kVectorBytes)));
};

// How many of them a lane type has, for at least 4 numbers.
inline constexpr int kParts = kVectorBytes == 16 ? 2 : 1;

#define KIT_EACH_PART(...)           \
  for (int p = 0; p < kParts; ++p) { \
    __VA_ARGS__;                     \
  }

// Truths, one for each row.
template <typename F>
struct Mask {
  using Vector = typename VectorOf<F>::ints;
  // Deleted: a branch on data is not the same for every row.
  explicit operator bool() const = delete;
  Vector m[kParts];  // -1 or 0
};

template <typename X>
inline constexpr bool kIsPlain = std::is_arithmetic_v<X>;
template <typename Storage>
inline constexpr bool kIsPlain<Half<Storage>> = true;

// Whether X is a float type wider than F: beside a number of type X, C++ would
// compute in X, as with 0.5 beside a float.
template <typename F, typename X>
inline constexpr bool kIsWider = std::is_floating_point_v<X> &&
                                 sizeof(X) > sizeof(F);
template <typename F, typename X>
using IfWider = std::enable_if_t<kIsWider<F, X>, int>;

// One number of each row.
template <typename F>
struct Lanes {
  using Vector = typename VectorOf<F>::type;
  using Ints = typename VectorOf<F>::ints;
  static constexpr int kInVector = kVectorBytes / sizeof(F);
  static constexpr int kCount = kParts * kInVector;

  Lanes() = default;
  Lanes(const Lanes&) = default;
  // Not trivial, so that compilers refuse a copy of bytes.
  KIT_INLINE Lanes& operator=(const Lanes& x) {
    KIT_EACH_PART(v[p] = x.v[p])
    return *this;
  }
  Address<Lanes> operator&() { return Address<Lanes>(this); }
  Address<const Lanes> operator&() const { return Address<const Lanes>(this); }
  // NOLINTNEXTLINE(google-explicit-constructor): constants convert implicitly
  template <typename X, std::enable_if_t<kIsPlain<X>, int> = 0>
  KIT_INLINE Lanes(X constant) {
    const F one = static_cast<F>(constant);
    KIT_EACH_PART(v[p] = one - Vector{})
  }

  KIT_INLINE F& at(int i) { return reinterpret_cast<F*>(v)[i]; }
  KIT_INLINE F at(int i) const { return v[i / kInVector][i % kInVector]; }

#define KIT_LANES_OPERATOR(op)                                          \
  KIT_INLINE friend Lanes operator op(const Lanes& a, const Lanes& b) { \
    KIT_FUSES                                                           \
    Lanes c;                                                            \
    KIT_EACH_PART(c.v[p] = a.v[p] op b.v[p])                            \
    return c;                                                           \
  }                                                                     \
  KIT_INLINE Lanes& operator op## = (const Lanes& b) {                  \
    return *this = *this op b;                                          \
  }                                                                     \
  template <typename X, IfWider<F, X> = 0>                              \
  void operator op## = (X) = delete;
  KIT_LANES_OPERATOR(+)
  KIT_LANES_OPERATOR(-)
  KIT_LANES_OPERATOR(*)
  KIT_LANES_OPERATOR(/)
#undef KIT_LANES_OPERATOR
  KIT_INLINE friend Lanes operator+(const Lanes& a) { return a; }
  KIT_INLINE friend Lanes operator-(const Lanes& a) {
    Lanes c;
    KIT_EACH_PART(c.v[p] = -a.v[p])
    return c;
  }
  KIT_INLINE Lanes& operator++() { return *this += 1; }
  KIT_INLINE Lanes& operator--() { return *this -= 1; }

#define KIT_LANES_COMPARISON(op)                                          \
  KIT_INLINE friend Mask<F> operator op(const Lanes& a, const Lanes& b) { \
    Mask<F> c;                                                            \
    KIT_EACH_PART(c.m[p] = a.v[p] op b.v[p])                              \
    return c;                                                             \
  }
  KIT_LANES_COMPARISON(<)
  KIT_LANES_COMPARISON(>)
  KIT_LANES_COMPARISON(<=)
  KIT_LANES_COMPARISON(>=)
  KIT_LANES_COMPARISON(==)
  KIT_LANES_COMPARISON(!=)
#undef KIT_LANES_COMPARISON

  typename VectorOf<F>::stored v[kParts];
};

#define KIT_REFUSE_WIDER(op)                           \
  template <typename F, typename X, IfWider<F, X> = 0> \
  void operator op(const Lanes<F>&, X) = delete;       \
  template <typename F, typename X, IfWider<F, X> = 0> \
  void operator op(X, const Lanes<F>&) = delete;
KIT_REFUSE_WIDER(+)
KIT_REFUSE_WIDER(-)
KIT_REFUSE_WIDER(*)
KIT_REFUSE_WIDER(/)
KIT_REFUSE_WIDER(<)
KIT_REFUSE_WIDER(>)
KIT_REFUSE_WIDER(<=)
KIT_REFUSE_WIDER(>=)
KIT_REFUSE_WIDER(==)
KIT_REFUSE_WIDER(!=)
#undef KIT_REFUSE_WIDER

#define KIT_MASKS_OPERATOR(op, as)                                     \
  template <typename F>                                                \
  KIT_INLINE Mask<F> operator op(const Mask<F>& a, const Mask<F>& b) { \
    Mask<F> c;                                                         \
    KIT_EACH_PART(c.m[p] = a.m[p] as b.m[p])                           \
    return c;                                                          \
  }                                                                    \
  template <typename F>                                                \
  KIT_INLINE Mask<F> operator op(const Mask<F>& a, bool b) {           \
    Mask<F> c;                                                         \
    KIT_EACH_PART(c.m[p] = a.m[p] as(typename Mask<F>::Vector{} - b))  \
    return c;                                                          \
  }                                                                    \
  template <typename F>                                                \
  KIT_INLINE Mask<F> operator op(bool a, const Mask<F>& b) {           \
    return b op a;                                                     \
  }
KIT_MASKS_OPERATOR(&, &)
KIT_MASKS_OPERATOR(|, |)
KIT_MASKS_OPERATOR(==, ==)
KIT_MASKS_OPERATOR(!=, !=)
#undef KIT_MASKS_OPERATOR
template <typename F>
KIT_INLINE Mask<F>& operator&=(Mask<F>& a, const Mask<F>& b) {
  return a = a & b;
}
template <typename F>
KIT_INLINE Mask<F>& operator|=(Mask<F>& a, const Mask<F>& b) {
  return a = a | b;
}
// C++ computes the right side of these only where the left one does not decide,
// which cannot be the same for every row.
#define KIT_REFUSE_SHORT(op)                           \
  template <typename F, typename X>                    \
  void operator op(const Mask<F>&, const X&) = delete; \
  template <typename F>                                \
  void operator op(bool, const Mask<F>&) = delete;
KIT_REFUSE_SHORT(&&)
KIT_REFUSE_SHORT(||)
#undef KIT_REFUSE_SHORT
template <typename F>
KIT_INLINE Mask<F> operator!(const Mask<F>& a) {
  Mask<F> c;
  KIT_EACH_PART(c.m[p] = ~a.m[p])
  return c;
}
template <typename F>
KIT_INLINE bool Any(const Mask<F>& a) {
  typename Mask<F>::Vector all = a.m[0];
  for (int p = 1; p < kParts; ++p) all |= a.m[p];
  int64_t words[kVectorBytes / 8], any = 0;
  std::memcpy(words, &all, sizeof(words));
  for (const int64_t word : words) any |= word;
  return any != 0;
}

template <typename F>
KIT_INLINE Lanes<F> Select(const Mask<F>& condition, const Lanes<F>& a,
                           const Lanes<F>& b) {
  Lanes<F> c;
  KIT_EACH_PART(c.v[p] = condition.m[p] ? a.v[p] : b.v[p])
  return c;
}

// The bits of a float as an integer, and back.
template <typename F>
struct Bits {
  using Vector = typename VectorOf<F>::ints;
  Vector i[kParts];
};
template <typename F>
KIT_INLINE Bits<F> BitsOf(const Lanes<F>& x) {
  Bits<F> y;
  KIT_EACH_PART(y.i[p] = (typename Bits<F>::Vector)x.v[p])
  return y;
}
template <typename F>
KIT_INLINE Lanes<F> FromBits(const Bits<F>& x) {
  Lanes<F> y;
  KIT_EACH_PART(y.v[p] = (typename Lanes<F>::Vector)x.i[p])
  return y;
}

// Rounds to what a 16-bit float can be, as half.h does.
template <typename H>
KIT_INLINE Lanes<float> RoundTo(const Lanes<float>& x) {
  using Ints = typename Lanes<float>::Ints;
  Bits<float> bits = BitsOf(x);
  KIT_EACH_PART({
    const Ints i = bits.i[p];
    const Ints size = i & 0x7fffffff;
    const Ints sign = i & int32_t{-0x7fffffff - 1};
    Ints rounded;
    if constexpr (std::is_same_v<H, bf16>) {
      rounded = (size + 0x7fff + ((size >> 16) & 1)) & ~0xffff;
    } else {
      rounded = (size + 0x0fff + ((size >> 13) & 1)) & ~0x1fff;
      rounded = size >= 0x477ff000 ? Ints{} + 0x7f800000 : rounded;
      // Below 2^-14 they are the multiples of 2^-24.
      const typename Lanes<float>::Vector small =
          ((typename Lanes<float>::Vector)size + 0.5f) - 0.5f;
      rounded = size < 0x38800000 ? (Ints)small : rounded;
    }
    const Ints nan = (size | 0x00400000) & ~0x1fff;
    bits.i[p] = (size > 0x7f800000 ? nan : rounded) | sign;
  })
  return FromBits(bits);
}

// 16-bit floats in lanes: floats, rounded when one is assigned.
template <typename H>
struct HalfLanes : Lanes<float> {
  HalfLanes() = default;
  Address<HalfLanes> operator&() { return Address<HalfLanes>(this); }
  Address<const HalfLanes> operator&() const {
    return Address<const HalfLanes>(this);
  }
  // NOLINTBEGIN(google-explicit-constructor): numbers convert implicitly
  template <typename X, std::enable_if_t<kIsPlain<X>, int> = 0>
  KIT_INLINE HalfLanes(X constant)
      : Lanes<float>(float(H(static_cast<float>(constant)))) {}
  KIT_INLINE HalfLanes(const Lanes<float>& x) : Lanes<float>(RoundTo<H>(x)) {}
  // NOLINTEND(google-explicit-constructor)

  KIT_INLINE HalfLanes& operator+=(const Lanes<float>& b) {
    return *this = *this + b;
  }
  KIT_INLINE HalfLanes& operator-=(const Lanes<float>& b) {
    return *this = *this - b;
  }
  KIT_INLINE HalfLanes& operator*=(const Lanes<float>& b) {
    return *this = *this * b;
  }
  KIT_INLINE HalfLanes& operator/=(const Lanes<float>& b) {
    return *this = *this / b;
  }
};

// The lanes of the elements of an array; void if it is none of floats.
template <typename E>
struct LanesOfElement {
  using type = void;
};
template <>
struct LanesOfElement<float> {
  using type = Lanes<float>;
};
template <>
struct LanesOfElement<double> {
  using type = Lanes<double>;
};
template <typename Storage>
struct LanesOfElement<Half<Storage>> {
  using type = HalfLanes<Half<Storage>>;
};
template <typename E>
using LanesOf = typename LanesOfElement<E>::type;
template <typename H>
struct Accumulation<HalfLanes<H>> {
  using type = Lanes<float>;
};

template <typename F>
struct PlainType<Lanes<F>, false> {
  using type = F;
};
template <typename H>
struct PlainType<HalfLanes<H>, false> {
  using type = H;
};

// The float type of X if X is a type of lanes, and void for any other.
template <typename F>
F FloatOf(const Lanes<F>*);
void FloatOf(...);
template <typename X>
inline constexpr bool kIsLanes =
    !std::is_void_v<decltype(FloatOf(static_cast<X*>(nullptr)))>;

// `a` for the rows in which the condition holds, else `b`.
template <typename F, typename X, typename Y,
          typename EnableIf<!kIsNumber<X> && !kIsNumber<Y> && !kIsWider<F, X> &&
                            !kIsWider<F, Y>>::type = 0>
KIT_INLINE Lanes<F> where(const Mask<F>& condition, const X& a, const Y& b) {
  static_assert(kIsLanes<X> || kIsLanes<Y> || !std::is_integral_v<X> ||
                    !std::is_integral_v<Y>,
                "kit::where: in lanes, a condition on data does not choose "
                "between integers");
  return Select<F>(condition, Lanes<F>(a), Lanes<F>(b));
}

}  // namespace kit

namespace std {
template <typename F>
struct numeric_limits<kit::Lanes<F>> : numeric_limits<F> {};
template <typename H>
struct numeric_limits<kit::HalfLanes<H>> : numeric_limits<H> {};
}  // namespace std

#endif  // XLA_FFI_STRINGS_LANES_H_
