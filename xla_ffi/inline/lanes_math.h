// The mathematics of lanes as vector code, and what calls the C library for one
// lane after the other. A lane's result depends on nothing but its arguments.
//
// Polynomials are interpolated in Chebyshev's nodes; the sums of their first
// terms are exact.

#ifndef XLA_FFI_INLINE_LANES_MATH_H_
#define XLA_FFI_INLINE_LANES_MATH_H_

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "xla_ffi/inline/lanes.h"

namespace kit {

template <typename F>
inline constexpr bool kIsDouble = std::is_same_v<F, double>;
template <typename F>
inline constexpr F kInfinity = std::numeric_limits<F>::infinity();
template <typename F>
inline constexpr F kNaN = std::numeric_limits<F>::quiet_NaN();

// Rounds a number of fewer than 2^22 (2^51) to an integer, as a float and as
// one; adding 1.5 * 2^23 leaves no bits for a fraction.
template <typename F>
inline constexpr F kShift = kIsDouble<F> ? 0x1.8p52 : 0x1.8p23;
template <typename F>
KIT_INLINE Lanes<F> NearestOf(const Lanes<F>& x, Bits<F>* integer) {
  const Lanes<F> shifted = x + kShift<F>, shift = kShift<F>;
  const Bits<F> bits = BitsOf(shifted), none = BitsOf(shift);
  KIT_EACH_PART(integer->i[p] = bits.i[p] - none.i[p])
  return shifted - shift;
}

template <typename F>
inline constexpr int kFraction = kIsDouble<F> ? 52 : 23;
template <typename F>
inline constexpr int kBias = kIsDouble<F> ? 1023 : 127;
// 2^n for normal results.
template <typename F>
KIT_INLINE Lanes<F> PowerOfTwo(const Bits<F>& n) {
  Bits<F> bits;
  KIT_EACH_PART(bits.i[p] = (n.i[p] + kBias<F>) << kFraction<F>)
  return FromBits(bits);
}
// x * 2^n, in two steps, because 2^n may be no normal number.
template <typename F>
KIT_INLINE Lanes<F> Scale(const Lanes<F>& x, const Bits<F>& n) {
  Bits<F> half, rest;
  KIT_EACH_PART(half.i[p] = n.i[p] >> 1; rest.i[p] = n.i[p] - half.i[p])
  return x * PowerOfTwo<F>(half) * PowerOfTwo<F>(rest);
}

template <typename F, typename... C>
KIT_INLINE Lanes<F> Polynomial(const Lanes<F>& x, F first, C... others) {
  KIT_FUSES
  if constexpr (sizeof...(others) == 0) {
    return first;
  } else {
    return Polynomial<F>(x, others...) * x + Lanes<F>(first);
  }
}

// (e^r - 1 - r) / r^2 for |r| of at most log(2) / 2.
template <typename F>
KIT_INLINE Lanes<F> ExpTail(const Lanes<F>& r) {
  if constexpr (kIsDouble<F>) {
    return Polynomial<F>(r, 0.5, 1.6666666666666702e-01, 4.166666666665632e-02,
                         8.333333333280601e-03, 1.3888888896160456e-03,
                         1.9841270041202045e-04, 2.4801569443200383e-05,
                         2.755704151901517e-06, 2.757517787633564e-07,
                         2.519393249711429e-08, 1.4665372832693862e-09);
  } else {
    return Polynomial<F>(r, 0.5f, 1.6666666725616233e-01f,
                         4.1666448332028955e-02f, 8.33329560448393e-03f,
                         1.3935454539740636e-03f, 1.990162311458193e-04f);
  }
}
// The rest of x after n * log(2), whose upper half has room for n.
template <typename F>
KIT_INLINE Lanes<F> LessLogsOfTwo(const Lanes<F>& x, const Lanes<F>& n) {
  constexpr F kHigh = kIsDouble<F> ? F(0x1.62e42fefa38p-1) : F(0x1.62e4p-1);
  constexpr F kLow =
      kIsDouble<F> ? F(0x1.ef35793c7673p-45) : F(0x1.7f7d1cf79abcap-20);
  return (x - n * kHigh) - n * kLow;
}
template <typename F>
inline constexpr F kLog2E = F(1.44269504088896340736);
// Where e^x is neither 0 nor infinite, with some room.
template <typename F>
KIT_INLINE Lanes<F> Bounded(const Lanes<F>& x) {
  constexpr F kMost = kIsDouble<F> ? 711 : 90, kLeast = kIsDouble<F> ? -746 : -105;
  return Select(x > kMost, Lanes<F>(kMost), Select(x < kLeast, Lanes<F>(kLeast), x));
}

template <typename F>
KIT_INLINE Lanes<F> exp(const Lanes<F>& whole) {
  const Lanes<F> x = Bounded(whole);
  Bits<F> n;
  const Lanes<F> r = LessLogsOfTwo(x, NearestOf<F>(x * kLog2E<F>, &n));
  return Scale<F>(ExpTail(r) * (r * r) + r + Lanes<F>(1), n);
}
template <typename F>
KIT_INLINE Lanes<F> exp2(const Lanes<F>& whole) {
  constexpr F kMost = kIsDouble<F> ? 1025 : 129, kLeast = kIsDouble<F> ? -1076 : -151;
  const Lanes<F> x = Select(whole > kMost, Lanes<F>(kMost), Select(whole < kLeast, Lanes<F>(kLeast), whole));
  Bits<F> n;
  const Lanes<F> r = (x - NearestOf<F>(x, &n)) * F(0.693147180559945309417);
  return Scale<F>(ExpTail(r) * (r * r) + r + Lanes<F>(1), n);
}
template <typename F>
KIT_INLINE Lanes<F> expm1(const Lanes<F>& whole) {
  const Lanes<F> x = Bounded(whole);
  Bits<F> n;
  const Lanes<F> r = LessLogsOfTwo(x, NearestOf<F>(x * kLog2E<F>, &n));
  const Lanes<F> tail = ExpTail(r) * (r * r) + r;
  // (2^n - 1) + 2^n * tail; 2^n is normal but for large x, and tiny ones.
  const Lanes<F> far = Scale<F>(tail + Lanes<F>(1), n) - Lanes<F>(1);
  const Lanes<F> near = PowerOfTwo<F>(n) * tail + (PowerOfTwo<F>(n) - Lanes<F>(1));
  const Lanes<F> y = Select(abs(x) < F(60), near, far);
  return Select(whole == F(0), whole, y);
}

template <typename F>
KIT_INLINE Lanes<F> abs(const Lanes<F>& x) {
  Bits<F> bits = BitsOf(x);
  constexpr auto kSize = kIsDouble<F> ? INT64_MAX : INT32_MAX;
  KIT_EACH_PART(bits.i[p] &= kSize)
  return FromBits(bits);
}
template <typename F>
KIT_INLINE Lanes<F> copysign(const Lanes<F>& size, const Lanes<F>& sign) {
  Bits<F> bits = BitsOf(abs(size)), of = BitsOf(sign);
  constexpr auto kSign = kIsDouble<F> ? INT64_MIN : INT32_MIN;
  KIT_EACH_PART(bits.i[p] |= of.i[p] & kSign)
  return FromBits(bits);
}
template <typename F>
KIT_INLINE Mask<F> signbit(const Lanes<F>& x) {
  const Bits<F> bits = BitsOf(x);
  Mask<F> y;
  KIT_EACH_PART(y.m[p] = bits.i[p] < 0)
  return y;
}
template <typename F>
KIT_INLINE Mask<F> isnan(const Lanes<F>& x) {
  return x != x;
}
template <typename F>
KIT_INLINE Mask<F> isinf(const Lanes<F>& x) {
  return abs(x) == kInfinity<F>;
}
template <typename F>
KIT_INLINE Mask<F> isfinite(const Lanes<F>& x) {
  return abs(x) < kInfinity<F>;
}

// The logarithm of a positive normal number, and of others.
template <typename F>
KIT_INLINE Lanes<F> log(const Lanes<F>& whole) {
  constexpr F kTiny = std::numeric_limits<F>::min();
  constexpr F kUp = kIsDouble<F> ? F(0x1p54) : F(0x1p25);
  const Mask<F> is_tiny = whole < kTiny;
  const Lanes<F> x = Select(is_tiny, whole * kUp, whole);
  // x = 2^n * (1 + f) with 1 + f from sqrt(1/2) to sqrt(2).
  constexpr F kRoot = F(0.707106781186547524401);
  const Lanes<F> root = kRoot;
  const Bits<F> bits = BitsOf(x), of_root = BitsOf(root);
  Bits<F> n, rest;
  KIT_EACH_PART(n.i[p] = (bits.i[p] - of_root.i[p]) >> kFraction<F>;
                rest.i[p] = bits.i[p] - (n.i[p] << kFraction<F>))
  const Lanes<F> f = FromBits(rest) - Lanes<F>(1);
  Lanes<F> e;
  KIT_EACH_PART(e.v[p] = __builtin_convertvector(n.i[p], typename Lanes<F>::Vector))
  e -= Select(is_tiny, Lanes<F>(kIsDouble<F> ? 54 : 25), Lanes<F>(0));
  constexpr F kHigh = kIsDouble<F> ? F(0x1.62e42fefa38p-1) : F(0x1.62e4p-1);
  constexpr F kLow =
      kIsDouble<F> ? F(0x1.ef35793c7673p-45) : F(0x1.7f7d1cf79abcap-20);
  Lanes<F> y;
  if constexpr (kIsDouble<F>) {
    const Lanes<F> s = f / (f + Lanes<F>(2)), z = s * s;
    const Lanes<F> rest_of = Polynomial<F>(
        z, 6.666666666666663e-01, 4.000000000005112e-01, 2.8571428552287553e-01,
        2.222222538813444e-01, 1.8181547235976797e-01, 1.5397252695633687e-01,
        1.3020378232599886e-01, 1.532584000064719e-01) * z;
    const Lanes<F> square = f * f * F(0.5);
    y = e * kHigh - ((square - (s * (square + rest_of) + e * kLow)) - f);
  } else {
    const Lanes<F> tail = Polynomial<F>(
        f, 3.3333331190848126e-01f, -2.4999989048734966e-01f,
        2.0000707478390334e-01f, -1.6668480239497815e-01f,
        1.4249936532987603e-01f, -1.2411050684153181e-01f,
        1.1661511067784408e-01f, -1.157120072595981e-01f,
        7.14975388926041e-02f);
    const Lanes<F> z = f * f;
    y = (tail * (z * f) + e * kLow - z * F(0.5)) + f + e * kHigh;
  }
  y = Select(whole == F(0), Lanes<F>(-kInfinity<F>), y);
  y = Select(whole < F(0) || whole != whole, Lanes<F>(kNaN<F>), y);
  return Select(whole == kInfinity<F>, whole, y);
}
template <typename F>
KIT_INLINE Lanes<F> log2(const Lanes<F>& x) {
  return log(x) * kLog2E<F>;
}
template <typename F>
KIT_INLINE Lanes<F> log10(const Lanes<F>& x) {
  return log(x) * F(0.434294481903251827651);
}
// As log(u) * x / (u - 1) with the u = 1 + x that there is.
template <typename F>
KIT_INLINE Lanes<F> log1p(const Lanes<F>& x) {
  const Lanes<F> u = x + Lanes<F>(1), less = u - Lanes<F>(1);
  const Lanes<F> y = log(u) * (x / less);
  return Select(less == F(0), x, Select(u == kInfinity<F> || u == F(0), log(u), y));
}

template <typename F>
KIT_INLINE Lanes<F> tanh(const Lanes<F>& x) {
  const Lanes<F> size = abs(x), z = x * x;
  Lanes<F> near;
  if constexpr (kIsDouble<F>) {
    near = Polynomial<F>(z, -3.33333333333333e-01, 1.3333333333321915e-01,
                         -5.3968253958822716e-02, 2.1869488195994758e-02,
                         -8.863228934520264e-03, 3.5920514657941404e-03,
                         -1.455269750416e-03, 5.8730565165056e-04,
                         -2.305073737629696e-04, 7.929233330405376e-05,
                         -1.7094393150056695e-05);
  } else {
    near = Polynomial<F>(z, -3.333332909961712e-01f, 1.333278226399509e-01f,
                         -5.3852497468531046e-02f, 2.1003641220792565e-02f,
                         -6.1049480113042065e-03f);
  }
  const Lanes<F> far =
      Lanes<F>(1) - Lanes<F>(2) / (exp(size + size) + Lanes<F>(1));
  return Select(size < F(0.625), near * (z * x) + x, copysign(far, x));
}

template <typename F>
KIT_INLINE Lanes<F> cosh(const Lanes<F>& x) {
  const Lanes<F> half = exp(abs(x) * F(0.5)), e = half * half;
  return half * F(0.5) * half + F(0.5) / e;
}
template <typename F>
KIT_INLINE Lanes<F> sinh(const Lanes<F>& x) {
  const Lanes<F> size = abs(x), t = expm1(size);
  const Lanes<F> half = exp(size * F(0.5));
  const Lanes<F> near = (t + t / (t + Lanes<F>(1))) * F(0.5);
  return copysign(Select(size < F(20), near, half * F(0.5) * half), x);
}

// Calls a function of the C library for each lane.
template <typename F, typename Function, typename... X>
KIT_INLINE Lanes<F> EachLane(const Function& function, const X&... x) {
  Lanes<F> y;
  for (int i = 0; i < Lanes<F>::kCount; ++i) y.at(i) = function(x.at(i)...);
  return y;
}

// The sine and the cosine, from the rest after quarters of a turn; libm's where
// so many of them leave too few bits.
template <typename F>
struct Turn {
  Lanes<F> sine, cosine;
  Bits<F> quarters;
};
template <typename F>
KIT_INLINE Turn<F> TurnOf(const Lanes<F>& x) {
  Turn<F> y;
  const Lanes<F> n = NearestOf<F>(x * F(0.636619772367581343076), &y.quarters);
  Lanes<F> r;
  if constexpr (kIsDouble<F>) {
    r = ((x - n * F(0x1.921fb544p+0)) - n * F(0x1.0b4611a6p-34)) -
        n * F(0x1.3198a2e037073p-69);
  } else {
    r = (((x - n * F(0x1.92p+0)) - n * F(0x1.fb4p-12)) - n * F(0x1.444p-24)) -
        n * F(0x1.68c234p-39);
  }
  const Lanes<F> z = r * r;
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
  y.cosine = y.cosine * (z * z) - z * F(0.5) + Lanes<F>(1);
  return y;
}
// One of them after some quarters of a turn.
template <typename F>
KIT_INLINE Lanes<F> After(const Turn<F>& turn, int quarters) {
  Mask<F> swaps;
  Bits<F> bits, sign;
  KIT_EACH_PART(bits.i[p] = turn.quarters.i[p] + quarters;
                swaps.m[p] = (bits.i[p] & 1) != 0;
                sign.i[p] = (bits.i[p] & 2) << (kIsDouble<F> ? 62 : 30))
  bits = BitsOf(Select(swaps, turn.cosine, turn.sine));
  KIT_EACH_PART(bits.i[p] ^= sign.i[p])
  return FromBits(bits);
}
template <typename F>
KIT_INLINE Mask<F> IsFar(const Lanes<F>& x) {
  return !(abs(x) <= (kIsDouble<F> ? F(1e6) : F(8192)));
}
#define KIT_TURN(name, result)                                             \
  template <typename F>                                                    \
  __attribute__((noinline, cold)) Lanes<F> Far_##name(const Lanes<F>& x) { \
    return EachLane<F>([](F one) { return std::name(one); }, x);           \
  }                                                                        \
  template <typename F>                                                    \
  KIT_INLINE Lanes<F> name(const Lanes<F>& x) {                            \
    const Mask<F> is_far = IsFar(x);                                       \
    const Turn<F> turn = TurnOf(x);                                        \
    const Lanes<F> y = result;                                             \
    if (__builtin_expect(Any(is_far), 0)) {                                \
      return Select(is_far, Far_##name(x), y);                             \
    }                                                                      \
    return y;                                                              \
  }
KIT_TURN(sin, Select(x == F(0), x, After(turn, 0)))
KIT_TURN(cos, After(turn, 1))
KIT_TURN(tan, Select(x == F(0), x, After(turn, 0) / After(turn, 1)))
#undef KIT_TURN

template <typename F>
KIT_INLINE Lanes<F> sqrt(const Lanes<F>& x) {
  return EachLane<F>([](F one) { return std::sqrt(one); }, x);
}

// x^y: for floats in doubles, which have the bits that the logarithm needs.
KIT_INLINE Lanes<float> pow(const Lanes<float>& x, const Lanes<float>& y) {
  const Lanes<float> size = abs(x);
  Lanes<float> power;
  for (int part = 0; part < 2; ++part) {
    Lanes<double> a, b;
    constexpr int kHalf = Lanes<double>::kCount;
    for (int i = 0; i < kHalf; ++i) {
      a.at(i) = size.at(part * kHalf + i);
      b.at(i) = y.at(part * kHalf + i);
    }
    const Lanes<double> c = exp(b * log(a));
    for (int i = 0; i < kHalf; ++i) {
      power.at(part * kHalf + i) = static_cast<float>(c.at(i));
    }
  }
  const auto rounded = EachLane<float>([](float v) { return std::trunc(v); }, y);
  const Lanes<float> half = y * 0.5f;
  const auto rounded_half =
      EachLane<float>([](float v) { return std::trunc(v); }, half);
  const Mask<float> is_whole = rounded == y, is_even = rounded_half == half;
  power = Select(signbit(x) && is_whole && !is_even, -power, power);
  power = Select(x < 0.f && !is_whole && isfinite(x), Lanes<float>(kNaN<float>), power);
  const Mask<float> is_one =
      y == 0.f || x == 1.f || (x == -1.f && isinf(y));
  return Select(is_one, Lanes<float>(1), power);
}

#define KIT_EACH_LANE(name)                                      \
  template <typename F>                                          \
  KIT_INLINE Lanes<F> name(const Lanes<F>& x) {                  \
    return EachLane<F>([](F one) { return std::name(one); }, x); \
  }
KIT_EACH_LANE(floor)
KIT_EACH_LANE(ceil)
KIT_EACH_LANE(trunc)
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
template <typename F>
KIT_INLINE Lanes<F> fabs(const Lanes<F>& x) {
  return abs(x);
}

// A function of lanes, or of lanes and constants.
#define KIT_OF_TWO(name, ...)                                               \
  template <typename F>                                                     \
  KIT_INLINE Lanes<F> Two_##name(const Lanes<F>& a, const Lanes<F>& b) {    \
    __VA_ARGS__                                                             \
  }                                                                         \
  template <typename X, typename Y,                                         \
            std::enable_if_t<kIsLanes<X> || kIsLanes<Y>, int> = 0>          \
  KIT_INLINE auto name(const X& x, const Y& y) {                            \
    using F = decltype(FloatOf(                                             \
        static_cast<std::conditional_t<kIsLanes<X>, X, Y>*>(nullptr)));     \
    return Two_##name<F>(x, y);                                             \
  }
KIT_OF_TWO(fmax, return Select(a < b || a != a, b, a);)
KIT_OF_TWO(fmin, return Select(b < a || a != a, b, a);)
KIT_OF_TWO(atan2, return EachLane<F>([](F c, F d) { return std::atan2(c, d); }, a, b);)
KIT_OF_TWO(hypot, return EachLane<F>([](F c, F d) { return std::hypot(c, d); }, a, b);)
KIT_OF_TWO(fmod, return EachLane<F>([](F c, F d) { return std::fmod(c, d); }, a, b);)
#undef KIT_OF_TWO
// std::max and std::min of equal types.
template <typename F>
KIT_INLINE Lanes<F> max(const Lanes<F>& a, const Lanes<F>& b) {
  return Select(a < b, b, a);
}
template <typename F>
KIT_INLINE Lanes<F> min(const Lanes<F>& a, const Lanes<F>& b) {
  return Select(b < a, b, a);
}

}  // namespace kit

// Authors write std::exp(x).
namespace std {
using kit::abs, kit::acos, kit::acosh, kit::asin, kit::asinh, kit::atan,
    kit::atan2, kit::atanh, kit::cbrt, kit::ceil, kit::copysign, kit::cos,
    kit::cosh, kit::erf, kit::erfc, kit::exp, kit::exp2, kit::expm1, kit::fabs,
    kit::floor, kit::fmax, kit::fmin, kit::fmod, kit::hypot, kit::isfinite,
    kit::isinf, kit::isnan, kit::lgamma, kit::log, kit::log10, kit::log1p,
    kit::log2, kit::max, kit::min, kit::nearbyint, kit::pow, kit::rint,
    kit::round, kit::signbit, kit::sin, kit::sinh, kit::sqrt, kit::tan,
    kit::tanh, kit::tgamma, kit::trunc;
}  // namespace std

#endif  // XLA_FFI_INLINE_LANES_MATH_H_
