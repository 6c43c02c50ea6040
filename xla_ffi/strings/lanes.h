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

template <typename F, int kBytes>
struct VectorOf {
  using Int = std::conditional_t<sizeof(F) == 4, int32_t, int64_t>;
  typedef F type __attribute__((vector_size(kBytes)));
  // In memory that is aligned for floats, as that of any allocator.
  typedef F stored __attribute__((vector_size(kBytes), aligned(alignof(F))));
  typedef Int ints __attribute__((vector_size(kBytes)));
};

// How many rows have lanes: in two vectors of 16 bytes, or one of more.
template <typename F>
inline constexpr int kLanes =
    (kVectorBytes == 16 ? 32 : kVectorBytes) / int{sizeof(F)};
// A single row is a vector of 16 bytes, each element of which is its number:
// computed as those of several rows are, it has the same bits.
template <int kN>
inline constexpr int kBytesOf = kN == 1 ? 16 : kVectorBytes;
template <int kN>
inline constexpr int kParts = kVectorBytes == 16 && kN > 1 ? 2 : 1;

#define KIT_EACH_PART(...)               \
  for (int p = 0; p < kParts<kN>; ++p) { \
    __VA_ARGS__;                         \
  }

// Truths, one for each row.
template <typename F, int kN>
struct Mask {
  using Vector = typename VectorOf<F, kBytesOf<kN>>::ints;
  // Deleted: a branch on data is not the same for every row.
  explicit operator bool() const = delete;
  Vector m[kParts<kN>];  // -1 or 0
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

// One number of each of kN rows.
template <typename F, int kN = kLanes<F>>
struct Lanes {
  using Float = F;
  using Vector = typename VectorOf<F, kBytesOf<kN>>::type;
  using Ints = typename VectorOf<F, kBytesOf<kN>>::ints;
  static constexpr int kInVector = kBytesOf<kN> / sizeof(F);
  static constexpr int kCount = kN;

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

#define KIT_LANES_COMPARISON(op)                                              \
  KIT_INLINE friend Mask<F, kN> operator op(const Lanes& a, const Lanes& b) { \
    Mask<F, kN> c;                                                            \
    KIT_EACH_PART(c.m[p] = a.v[p] op b.v[p])                                  \
    return c;                                                                 \
  }
  KIT_LANES_COMPARISON(<)
  KIT_LANES_COMPARISON(>)
  KIT_LANES_COMPARISON(<=)
  KIT_LANES_COMPARISON(>=)
  KIT_LANES_COMPARISON(==)
  KIT_LANES_COMPARISON(!=)
#undef KIT_LANES_COMPARISON

  typename VectorOf<F, kBytesOf<kN>>::stored v[kParts<kN>];
};

#define KIT_REFUSE_WIDER(op)                                   \
  template <typename F, int kN, typename X, IfWider<F, X> = 0> \
  void operator op(const Lanes<F, kN>&, X) = delete;           \
  template <typename F, int kN, typename X, IfWider<F, X> = 0> \
  void operator op(X, const Lanes<F, kN>&) = delete;
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

#define KIT_MASKS_OPERATOR(op, as)                                        \
  template <typename F, int kN>                                           \
  KIT_INLINE Mask<F, kN> operator op(const Mask<F, kN>& a,                \
                                     const Mask<F, kN>& b) {              \
    Mask<F, kN> c;                                                        \
    KIT_EACH_PART(c.m[p] = a.m[p] as b.m[p])                              \
    return c;                                                             \
  }                                                                       \
  template <typename F, int kN>                                           \
  KIT_INLINE Mask<F, kN> operator op(const Mask<F, kN>& a, bool b) {      \
    Mask<F, kN> c;                                                        \
    KIT_EACH_PART(c.m[p] = a.m[p] as(typename Mask<F, kN>::Vector{} - b)) \
    return c;                                                             \
  }                                                                       \
  template <typename F, int kN>                                           \
  KIT_INLINE Mask<F, kN> operator op(bool a, const Mask<F, kN>& b) {      \
    return b op a;                                                        \
  }
KIT_MASKS_OPERATOR(&, &)
KIT_MASKS_OPERATOR(|, |)
KIT_MASKS_OPERATOR(==, ==)
KIT_MASKS_OPERATOR(!=, !=)
#undef KIT_MASKS_OPERATOR
template <typename F, int kN>
KIT_INLINE Mask<F, kN>& operator&=(Mask<F, kN>& a, const Mask<F, kN>& b) {
  return a = a & b;
}
template <typename F, int kN>
KIT_INLINE Mask<F, kN>& operator|=(Mask<F, kN>& a, const Mask<F, kN>& b) {
  return a = a | b;
}
// C++ computes the right side of these only where the left one does not decide,
// which cannot be the same for every row.
#define KIT_REFUSE_SHORT(op)                               \
  template <typename F, int kN, typename X>                \
  void operator op(const Mask<F, kN>&, const X&) = delete; \
  template <typename F, int kN>                            \
  void operator op(bool, const Mask<F, kN>&) = delete;
KIT_REFUSE_SHORT(&&)
KIT_REFUSE_SHORT(||)
#undef KIT_REFUSE_SHORT
template <typename F, int kN>
KIT_INLINE Mask<F, kN> operator!(const Mask<F, kN>& a) {
  Mask<F, kN> c;
  KIT_EACH_PART(c.m[p] = ~a.m[p])
  return c;
}
template <typename F, int kN>
KIT_INLINE bool Any(const Mask<F, kN>& a) {
  typename Mask<F, kN>::Vector all = a.m[0];
  for (int p = 1; p < kParts<kN>; ++p) all |= a.m[p];
  int64_t words[kBytesOf<kN> / 8], any = 0;
  std::memcpy(words, &all, sizeof(words));
  for (const int64_t word : words) any |= word;
  return any != 0;
}

template <typename F, int kN>
KIT_INLINE Lanes<F, kN> Select(const Mask<F, kN>& condition,
                               const Lanes<F, kN>& a, const Lanes<F, kN>& b) {
  Lanes<F, kN> c;
  KIT_EACH_PART(c.v[p] = condition.m[p] ? a.v[p] : b.v[p])
  return c;
}

// The bits of a float as an integer, and back.
template <typename F, int kN>
struct Bits {
  using Vector = typename VectorOf<F, kBytesOf<kN>>::ints;
  Vector i[kParts<kN>];
};
template <typename F, int kN>
KIT_INLINE Bits<F, kN> BitsOf(const Lanes<F, kN>& x) {
  Bits<F, kN> y;
  KIT_EACH_PART(y.i[p] = (typename Bits<F, kN>::Vector)x.v[p])
  return y;
}
template <typename F, int kN>
KIT_INLINE Lanes<F, kN> FromBits(const Bits<F, kN>& x) {
  Lanes<F, kN> y;
  KIT_EACH_PART(y.v[p] = (typename Lanes<F, kN>::Vector)x.i[p])
  return y;
}

// Rounds to what a 16-bit float can be, as half.h does.
template <typename H, int kN>
KIT_INLINE Lanes<float, kN> RoundTo(const Lanes<float, kN>& x) {
  using Ints = typename Lanes<float, kN>::Ints;
  Bits<float, kN> bits = BitsOf(x);
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
      using Vector = typename Lanes<float, kN>::Vector;
      const Vector small = ((Vector)size + 0.5f) - 0.5f;
      rounded = size < 0x38800000 ? (Ints)small : rounded;
    }
    const Ints nan = (size | 0x00400000) & ~0x1fff;
    bits.i[p] = (size > 0x7f800000 ? nan : rounded) | sign;
  })
  return FromBits(bits);
}

// 16-bit floats in lanes: floats, rounded when one is assigned.
template <typename H, int kN = kLanes<float>>
struct HalfLanes : Lanes<float, kN> {
  using Base = Lanes<float, kN>;

  HalfLanes() = default;
  Address<HalfLanes> operator&() { return Address<HalfLanes>(this); }
  Address<const HalfLanes> operator&() const {
    return Address<const HalfLanes>(this);
  }
  // NOLINTBEGIN(google-explicit-constructor): numbers convert implicitly
  template <typename X, std::enable_if_t<kIsPlain<X>, int> = 0>
  KIT_INLINE HalfLanes(X constant)
      : Base(float(H(static_cast<float>(constant)))) {}
  KIT_INLINE HalfLanes(const Base& x) : Base(RoundTo<H>(x)) {}
  // NOLINTEND(google-explicit-constructor)

  KIT_INLINE HalfLanes& operator+=(const Base& b) { return *this = *this + b; }
  KIT_INLINE HalfLanes& operator-=(const Base& b) { return *this = *this - b; }
  KIT_INLINE HalfLanes& operator*=(const Base& b) { return *this = *this * b; }
  KIT_INLINE HalfLanes& operator/=(const Base& b) { return *this = *this / b; }
};

// The lanes of the elements of an array; void if it is none of floats.
template <typename E, int kN>
struct LanesOfElement {
  using type =
      std::conditional_t<std::is_floating_point_v<E>, Lanes<E, kN>, void>;
};
template <typename Storage, int kN>
struct LanesOfElement<Half<Storage>, kN> {
  using type = HalfLanes<Half<Storage>, kN>;
};
template <typename E, int kN = kLanes<Accumulate<E>>>
using LanesOf = typename LanesOfElement<E, kN>::type;
template <typename H, int kN>
struct Accumulation<HalfLanes<H, kN>> {
  using type = Lanes<float, kN>;
};

template <typename F, int kN>
struct PlainType<Lanes<F, kN>, false> {
  using type = F;
};
template <typename H, int kN>
struct PlainType<HalfLanes<H, kN>, false> {
  using type = H;
};

// The lanes that X is, or rounds; void if it is no type of lanes.
template <typename F, int kN>
Lanes<F, kN> LanesIn(const Lanes<F, kN>*);
void LanesIn(...);
template <typename X>
inline constexpr bool kIsLanes =
    !std::is_void_v<decltype(LanesIn(static_cast<X*>(nullptr)))>;

// `a` for the rows in which the condition holds, else `b`.
template <typename F, int kN, typename X, typename Y,
          typename EnableIf<!kIsNumber<X> && !kIsNumber<Y> && !kIsWider<F, X> &&
                            !kIsWider<F, Y>>::type = 0>
KIT_INLINE Lanes<F, kN> where(const Mask<F, kN>& condition, const X& a,
                              const Y& b) {
  static_assert(kIsLanes<X> || kIsLanes<Y> || !std::is_integral_v<X> ||
                    !std::is_integral_v<Y>,
                "kit::where: in lanes, a condition on data does not choose "
                "between integers");
  return Select(condition, Lanes<F, kN>(a), Lanes<F, kN>(b));
}

}  // namespace kit

namespace std {
template <typename F, int kN>
struct numeric_limits<kit::Lanes<F, kN>> : numeric_limits<F> {};
template <typename H, int kN>
struct numeric_limits<kit::HalfLanes<H, kN>> : numeric_limits<H> {};
}  // namespace std

#endif  // XLA_FFI_STRINGS_LANES_H_
