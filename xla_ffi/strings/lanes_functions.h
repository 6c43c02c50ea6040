// The other functions of lanes: as vector code, or of the C library for one
// lane after the other; and all of them as std::exp(x) and the like.

#ifndef XLA_FFI_STRINGS_LANES_FUNCTIONS_H_
#define XLA_FFI_STRINGS_LANES_FUNCTIONS_H_

#include <cmath>
#include <cstring>
#include <type_traits>

#include "xla_ffi/strings/lanes.h"
#include "xla_ffi/strings/lanes_math.h"

namespace kit {

// Calls a function for each lane: of the C library, or of vectors once the
// compiler sees the loop.
template <typename F, int kN, typename Function, typename... X>
KIT_INLINE Lanes<F, kN> EachLane(const Function& function,
                                 const Lanes<F, kN>& x, const X&... others) {
  struct Numbers {
    explicit Numbers(const Lanes<F, kN>& from) {
      std::memcpy(of, from.v, sizeof(of));
    }
    alignas(kVectorBytes) F of[kN];
  };
  alignas(kVectorBytes) F results[kN];
  const auto each = [&](const auto&... numbers) {
    for (int i = 0; i < kN; ++i) results[i] = function(numbers.of[i]...);
  };
  each(Numbers(x), Numbers(others)...);
  if constexpr (kN == 1) return results[0];
  Lanes<F, kN> y;
  std::memcpy(y.v, results, sizeof(results));
  return y;
}

// The sine and the cosine of what is left of x after whole quarters of a turn.
// Where x has so many of them that what is left has too few bits, libm's
// functions compute them: see IsFar().
template <typename F, int kN>
struct Turn {
  Lanes<F, kN> sine, cosine;
  Bits<F, kN> quarters;
};
template <typename F, int kN>
KIT_INLINE Turn<F, kN> TurnOf(const Lanes<F, kN>& x) {
  Turn<F, kN> y;
  const Lanes<F, kN> n =
      NearestOf<F>(x * F(0.636619772367581343076), &y.quarters);
  Lanes<F, kN> r;
  if constexpr (kIsDouble<F>) {
    r = ((x - n * F(0x1.921fb544p+0)) - n * F(0x1.0b4611a6p-34)) -
        n * F(0x1.3198a2e037073p-69);
  } else {
    r = (((x - n * F(0x1.92p+0)) - n * F(0x1.fb4p-12)) - n * F(0x1.444p-24)) -
        n * F(0x1.68c234p-39);
  }
  const Lanes<F, kN> z = r * r;
  if constexpr (kIsDouble<F>) {
    y.sine = Polynomial<F>(z, -1.6666666666666657e-01, 8.333333333328214e-03,
                           -1.9841269834048865e-04, 2.7557315019533737e-06,
                           -2.5050944083996524e-08, 1.590637182654862e-10);
    y.cosine = Polynomial<F>(z, 4.166666666666665e-02, -1.3888888888881534e-03,
                             2.480158729343473e-05, -2.7557315298355573e-07,
                             2.087582691131035e-09, -1.1363839212054912e-11);
  } else {
    y.sine = Polynomial<F>(z, -1.666666441349654e-01f, 8.332700659448874e-03f,
                           -1.9577785258959897e-04f);
    y.cosine = Polynomial<F>(z, 4.1666664409658015e-02f,
                             -1.3888255257478975e-03f, 2.453780403599339e-05f);
  }
  y.sine = y.sine * (z * r) + r;
  y.cosine = y.cosine * (z * z) - z * F(0.5) + Lanes<F, kN>(1);
  return y;
}
// The sine that many quarters of a turn further: after one it is the cosine.
template <typename F, int kN>
KIT_INLINE Lanes<F, kN> After(const Turn<F, kN>& turn, int quarters) {
  Mask<F, kN> swaps;
  Bits<F, kN> bits, sign;
  KIT_EACH_PART(bits.i[p] = turn.quarters.i[p] + quarters;
                swaps.m[p] = (bits.i[p] & 1) != 0;
                sign.i[p] = (bits.i[p] & 2) << (kIsDouble<F> ? 62 : 30))
  bits = BitsOf(Select(swaps, turn.cosine, turn.sine));
  KIT_EACH_PART(bits.i[p] ^= sign.i[p])
  return FromBits(bits);
}
template <typename F, int kN>
KIT_INLINE Mask<F, kN> IsFar(const Lanes<F, kN>& x) {
  return !(abs(x) <= (kIsDouble<F> ? F(1e6) : F(8192)));
}
#define KIT_TURN(name, result)                                   \
  template <typename F, int kN>                                  \
  __attribute__((noinline, cold)) Lanes<F, kN> Far_##name(       \
      const Lanes<F, kN>& x) {                                   \
    return EachLane<F>([](F one) { return std::name(one); }, x); \
  }                                                              \
  template <typename F, int kN>                                  \
  KIT_INLINE Lanes<F, kN> name(const Lanes<F, kN>& x) {          \
    const Mask<F, kN> is_far = IsFar(x);                         \
    const Turn<F, kN> turn = TurnOf(x);                          \
    const Lanes<F, kN> y = result;                               \
    if (__builtin_expect(Any(is_far), 0)) {                      \
      return Select(is_far, Far_##name(x), y);                   \
    }                                                            \
    return y;                                                    \
  }
KIT_TURN(sin, Select(x == F(0), x, After(turn, 0)))
KIT_TURN(cos, After(turn, 1))
KIT_TURN(tan, Select(x == F(0), x, After(turn, 0) / After(turn, 1)))
#undef KIT_TURN

template <typename F, int kN>
KIT_INLINE Lanes<F, kN> sqrt(const Lanes<F, kN>& x) {
  return EachLane<F>([](F one) { return std::sqrt(one); }, x);
}

template <typename F, int kN>
KIT_INLINE Lanes<F, kN> trunc(const Lanes<F, kN>& x) {
  return EachLane<F>([](F one) { return std::trunc(one); }, x);
}

// x^y of a positive x: for floats in doubles, which have the bits that the
// logarithm needs.
template <int kN>
KIT_INLINE Lanes<float, kN> PositivePower(const Lanes<float, kN>& x,
                                          const Lanes<float, kN>& y) {
  if constexpr (kN == 1) {
    using Wide = Lanes<double, 1>;
    return static_cast<float>(exp(Wide(y.at(0)) * log(Wide(x.at(0)))).at(0));
  }
  constexpr int kCount = kN == 1 ? 1 : kN / 2;
  float bases[kN], powers[kN];
  std::memcpy(bases, x.v, sizeof(bases));
  std::memcpy(powers, y.v, sizeof(powers));
  for (int from = 0; from < kN; from += kCount) {
    double wide[kCount];
    Lanes<double, kCount> a, b;
    for (int i = 0; i < kCount; ++i) wide[i] = bases[from + i];
    std::memcpy(a.v, wide, sizeof(wide));
    for (int i = 0; i < kCount; ++i) wide[i] = powers[from + i];
    std::memcpy(b.v, wide, sizeof(wide));
    const Lanes<double, kCount> c = exp(b * log(a));
    std::memcpy(wide, c.v, sizeof(wide));
    for (int i = 0; i < kCount; ++i) {
      bases[from + i] = static_cast<float>(wide[i]);
    }
  }
  Lanes<float, kN> power;
  std::memcpy(power.v, bases, sizeof(bases));
  return power;
}
template <int kN>
KIT_INLINE Lanes<float, kN> Power(const Lanes<float, kN>& x,
                                  const Lanes<float, kN>& y) {
  using L = Lanes<float, kN>;
  L power = PositivePower(abs(x), y);
  const L half = y * L(0.5f);
  const auto is_whole = trunc(y) == y, is_even = trunc(half) == half;
  power = Select(signbit(x) & is_whole & !is_even, -power, power);
  power = Select((x < 0.f) & !is_whole & isfinite(x), L(kNaN<float>), power);
  const auto is_one = (y == 0.f) | (x == 1.f) | ((x == -1.f) & isinf(y));
  return Select(is_one, L(1), power);
}
template <int kN>
KIT_INLINE Lanes<double, kN> Power(const Lanes<double, kN>& x,
                                   const Lanes<double, kN>& y) {
  return EachLane<double>([](double a, double b) { return std::pow(a, b); }, x,
                          y);
}

#define KIT_EACH_LANE(name)                                      \
  template <typename F, int kN>                                  \
  KIT_INLINE Lanes<F, kN> name(const Lanes<F, kN>& x) {          \
    return EachLane<F>([](F one) { return std::name(one); }, x); \
  }
KIT_EACH_LANE(floor)
KIT_EACH_LANE(ceil)
KIT_EACH_LANE(round)
KIT_EACH_LANE(rint)
KIT_EACH_LANE(nearbyint)
KIT_EACH_LANE(cbrt)
KIT_EACH_LANE(asin)
KIT_EACH_LANE(acos)
KIT_EACH_LANE(atan)
KIT_EACH_LANE(asinh)
KIT_EACH_LANE(acosh)
KIT_EACH_LANE(atanh)
KIT_EACH_LANE(erf)
KIT_EACH_LANE(erfc)
KIT_EACH_LANE(lgamma)
KIT_EACH_LANE(tgamma)
#undef KIT_EACH_LANE
template <typename F, int kN>
KIT_INLINE Lanes<F, kN> fabs(const Lanes<F, kN>& x) {
  return abs(x);
}

// A function of lanes, or of lanes and constants.
template <typename X, typename Y>
using LanesOfEither = decltype(LanesIn(
    static_cast<std::conditional_t<kIsLanes<X>, X, Y>*>(nullptr)));
template <typename X, typename Y>
inline constexpr bool kAreLanes = [] {
  if constexpr (kIsLanes<X> || kIsLanes<Y>) {
    using F = typename LanesOfEither<X, Y>::Float;
    // C++ takes an integer as double in these.
    constexpr bool kIsFloat = std::is_same_v<F, float>;
    return !kIsWider<F, X> && !kIsWider<F, Y> &&
           !(kIsFloat && (std::is_integral_v<X> || std::is_integral_v<Y>));
  } else {
    return false;
  }
}();
#define KIT_OF_TWO(name, ...)                                 \
  template <typename F, int kN>                               \
  KIT_INLINE Lanes<F, kN> Two_##name(const Lanes<F, kN>& a,   \
                                     const Lanes<F, kN>& b) { \
    __VA_ARGS__                                               \
  }                                                           \
  template <typename X, typename Y,                           \
            std::enable_if_t<kAreLanes<X, Y>, int> = 0>       \
  KIT_INLINE auto name(const X& x, const Y& y) {              \
    using L = LanesOfEither<X, Y>;                            \
    return Two_##name(L(x), L(y));                            \
  }
KIT_OF_TWO(pow, return Power(a, b);)
KIT_OF_TWO(fmax, return Select((a < b) | (a != a), b, a);)
KIT_OF_TWO(fmin, return Select((b < a) | (a != a), b, a);)
KIT_OF_TWO(atan2,
           return EachLane<F>([](F c, F d) { return std::atan2(c, d); }, a, b);)
KIT_OF_TWO(hypot,
           return EachLane<F>([](F c, F d) { return std::hypot(c, d); }, a, b);)
KIT_OF_TWO(fmod,
           return EachLane<F>([](F c, F d) { return std::fmod(c, d); }, a, b);)
#undef KIT_OF_TWO
template <typename F, int kN>
KIT_INLINE Lanes<F, kN> fma(const Lanes<F, kN>& a, const Lanes<F, kN>& b,
                            const Lanes<F, kN>& c) {
  return EachLane<F>([](F x, F y, F z) { return std::fma(x, y, z); }, a, b, c);
}
// std::max and std::min of equal types. Their first template parameter is a
// number, so that an author's std::max<size_t>(a, b), which names a type, is
// none of these.
template <int kNone = 0, typename H, int kN>
KIT_INLINE HalfLanes<H, kN> max(const HalfLanes<H, kN>& a,
                                const HalfLanes<H, kN>& b) {
  return Select<float, kN>(a < b, b, a);
}
template <int kNone = 0, typename H, int kN>
KIT_INLINE HalfLanes<H, kN> min(const HalfLanes<H, kN>& a,
                                const HalfLanes<H, kN>& b) {
  return Select<float, kN>(b < a, b, a);
}
template <int kNone = 0, typename F, int kN>
KIT_INLINE Lanes<F, kN> max(const Lanes<F, kN>& a, const Lanes<F, kN>& b) {
  return Select(a < b, b, a);
}
template <int kNone = 0, typename F, int kN>
KIT_INLINE Lanes<F, kN> min(const Lanes<F, kN>& a, const Lanes<F, kN>& b) {
  return Select(b < a, b, a);
}

}  // namespace kit

// Authors write std::exp(x).
namespace std {
using kit::abs, kit::acos, kit::acosh, kit::asin, kit::asinh, kit::atan,
    kit::atan2, kit::atanh, kit::cbrt, kit::ceil, kit::copysign, kit::cos,
    kit::cosh, kit::erf, kit::erfc, kit::exp, kit::exp2, kit::expm1, kit::fabs,
    kit::floor, kit::fma, kit::fmax, kit::fmin, kit::fmod, kit::hypot,
    kit::isfinite, kit::isinf, kit::isnan, kit::lgamma, kit::log, kit::log10,
    kit::log1p, kit::log2, kit::max, kit::min, kit::nearbyint, kit::pow,
    kit::rint, kit::round, kit::signbit, kit::sin, kit::sinh, kit::sqrt,
    kit::tan, kit::tanh, kit::tgamma, kit::trunc;
}  // namespace std

#endif  // XLA_FFI_STRINGS_LANES_FUNCTIONS_H_
