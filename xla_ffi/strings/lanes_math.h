// Exponentials and logarithms of lanes, as vector code. A lane's result depends
// on nothing but its arguments.
//
// Polynomials are interpolated in Chebyshev's nodes; the sums of their first
// terms are exact.

#ifndef XLA_FFI_STRINGS_LANES_MATH_H_
#define XLA_FFI_STRINGS_LANES_MATH_H_

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "xla_ffi/strings/lanes.h"

namespace kit {

template <typename F>
inline constexpr bool kIsDouble = std::is_same_v<F, double>;
template <typename F>
inline constexpr F kInfinity = std::numeric_limits<F>::infinity();
template <typename F>
inline constexpr F kNaN = std::numeric_limits<F>::quiet_NaN();

// Rounds a float below 2^22, or a double below 2^51, to an integer, and returns
// it as a float and in `integer`: after adding 1.5 * 2^23, or 1.5 * 2^52, there
// are no bits for a fraction.
template <typename F>
inline constexpr F kShift = kIsDouble<F> ? 0x1.8p52 : 0x1.8p23;
template <typename F, int kN>
KIT_INLINE Lanes<F, kN> NearestOf(const Lanes<F, kN>& x, Bits<F, kN>* integer) {
  const Lanes<F, kN> shifted = x + kShift<F>, shift = kShift<F>;
  const Bits<F, kN> bits = BitsOf(shifted), none = BitsOf(shift);
  KIT_EACH_PART(integer->i[p] = bits.i[p] - none.i[p])
  return shifted - shift;
}

template <typename F>
inline constexpr int kFraction = kIsDouble<F> ? 52 : 23;
template <typename F>
inline constexpr int kBias = kIsDouble<F> ? 1023 : 127;
// 2^n for normal results.
template <typename F, int kN>
KIT_INLINE Lanes<F, kN> PowerOfTwo(const Bits<F, kN>& n) {
  Bits<F, kN> bits;
  KIT_EACH_PART(bits.i[p] = (n.i[p] + kBias<F>) << kFraction<F>)
  return FromBits(bits);
}
// x * 2^n, in two steps, because 2^n may be no normal number.
template <typename F, int kN>
KIT_INLINE Lanes<F, kN> Scale(const Lanes<F, kN>& x, const Bits<F, kN>& n) {
  Bits<F, kN> half, rest;
  KIT_EACH_PART(half.i[p] = n.i[p] >> 1; rest.i[p] = n.i[p] - half.i[p])
  return x * PowerOfTwo<F>(half) * PowerOfTwo<F>(rest);
}

template <typename F, int kN, typename... C>
KIT_INLINE Lanes<F, kN> Polynomial(const Lanes<F, kN>& x, F first,
                                   C... others) {
  KIT_FUSES
  if constexpr (sizeof...(others) == 0) {
    return first;
  } else {
    return Polynomial<F>(x, others...) * x + Lanes<F, kN>(first);
  }
}

// (e^r - 1 - r) / r^2 for |r| of at most log(2) / 2.
template <typename F, int kN>
KIT_INLINE Lanes<F, kN> ExpTail(const Lanes<F, kN>& r) {
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
template <typename F, int kN>
KIT_INLINE Lanes<F, kN> LessLogsOfTwo(const Lanes<F, kN>& x,
                                      const Lanes<F, kN>& n) {
  constexpr F kHigh = kIsDouble<F> ? F(0x1.62e42fefa38p-1) : F(0x1.62e4p-1);
  constexpr F kLow =
      kIsDouble<F> ? F(0x1.ef35793c7673p-45) : F(0x1.7f7d1cf79abcap-20);
  return (x - n * kHigh) - n * kLow;
}
template <typename F>
inline constexpr F kLog2E = F(1.44269504088896340736);
// Where e^x is neither 0 nor infinite, with some room.
template <typename F, int kN>
KIT_INLINE Lanes<F, kN> Bounded(const Lanes<F, kN>& x) {
  constexpr F kMost = kIsDouble<F> ? 711 : 90,
              kLeast = kIsDouble<F> ? -746 : -105;
  return Select(x > kMost, Lanes<F, kN>(kMost),
                Select(x < kLeast, Lanes<F, kN>(kLeast), x));
}

template <typename F, int kN>
KIT_INLINE Lanes<F, kN> exp(const Lanes<F, kN>& whole) {
  const Lanes<F, kN> x = Bounded(whole);
  Bits<F, kN> n;
  const Lanes<F, kN> r = LessLogsOfTwo(x, NearestOf<F>(x * kLog2E<F>, &n));
  return Scale<F>(ExpTail(r) * (r * r) + r + Lanes<F, kN>(1), n);
}
template <typename F, int kN>
KIT_INLINE Lanes<F, kN> exp2(const Lanes<F, kN>& whole) {
  constexpr F kMost = kIsDouble<F> ? 1025 : 129,
              kLeast = kIsDouble<F> ? -1076 : -151;
  const Lanes<F, kN> x =
      Select(whole > kMost, Lanes<F, kN>(kMost),
             Select(whole < kLeast, Lanes<F, kN>(kLeast), whole));
  Bits<F, kN> n;
  const Lanes<F, kN> r = (x - NearestOf<F>(x, &n)) * F(0.693147180559945309417);
  return Scale<F>(ExpTail(r) * (r * r) + r + Lanes<F, kN>(1), n);
}
template <typename F, int kN>
KIT_INLINE Lanes<F, kN> expm1(const Lanes<F, kN>& whole) {
  const Lanes<F, kN> x = Bounded(whole);
  Bits<F, kN> n;
  const Lanes<F, kN> r = LessLogsOfTwo(x, NearestOf<F>(x * kLog2E<F>, &n));
  const Lanes<F, kN> tail = ExpTail(r) * (r * r) + r;
  // (2^n - 1) + 2^n * tail; 2^n is normal but for large x, and tiny ones.
  const Lanes<F, kN> far =
      Scale<F>(tail + Lanes<F, kN>(1), n) - Lanes<F, kN>(1);
  const Lanes<F, kN> near =
      PowerOfTwo<F>(n) * tail + (PowerOfTwo<F>(n) - Lanes<F, kN>(1));
  const Lanes<F, kN> y = Select(abs(x) < F(60), near, far);
  return Select(whole == F(0), whole, y);
}

template <typename F, int kN>
KIT_INLINE Lanes<F, kN> abs(const Lanes<F, kN>& x) {
  Bits<F, kN> bits = BitsOf(x);
  constexpr auto kSize = kIsDouble<F> ? INT64_MAX : INT32_MAX;
  KIT_EACH_PART(bits.i[p] &= kSize)
  return FromBits(bits);
}
template <typename F, int kN>
KIT_INLINE Lanes<F, kN> copysign(const Lanes<F, kN>& size,
                                 const Lanes<F, kN>& sign) {
  Bits<F, kN> bits = BitsOf(abs(size)), of = BitsOf(sign);
  constexpr auto kSign = kIsDouble<F> ? INT64_MIN : INT32_MIN;
  KIT_EACH_PART(bits.i[p] |= of.i[p] & kSign)
  return FromBits(bits);
}
template <typename F, int kN>
KIT_INLINE Mask<F, kN> signbit(const Lanes<F, kN>& x) {
  const Bits<F, kN> bits = BitsOf(x);
  Mask<F, kN> y;
  KIT_EACH_PART(y.m[p] = bits.i[p] < 0)
  return y;
}
template <typename F, int kN>
KIT_INLINE Mask<F, kN> isnan(const Lanes<F, kN>& x) {
  return x != x;
}
template <typename F, int kN>
KIT_INLINE Mask<F, kN> isinf(const Lanes<F, kN>& x) {
  return abs(x) == kInfinity<F>;
}
template <typename F, int kN>
KIT_INLINE Mask<F, kN> isfinite(const Lanes<F, kN>& x) {
  return abs(x) < kInfinity<F>;
}

// The logarithm; of numbers below the least normal one by way of a multiple.
template <typename F, int kN>
KIT_INLINE Lanes<F, kN> log(const Lanes<F, kN>& whole) {
  constexpr F kTiny = std::numeric_limits<F>::min();
  constexpr F kUp = kIsDouble<F> ? F(0x1p54) : F(0x1p25);
  const Mask<F, kN> is_tiny = whole < kTiny;
  const Lanes<F, kN> x = Select(is_tiny, whole * kUp, whole);
  // x = 2^n * (1 + f) with 1 + f from sqrt(1/2) to sqrt(2).
  constexpr F kRoot = F(0.707106781186547524401);
  const Lanes<F, kN> root = kRoot;
  const Bits<F, kN> bits = BitsOf(x), of_root = BitsOf(root);
  Bits<F, kN> n, rest;
  KIT_EACH_PART(n.i[p] = (bits.i[p] - of_root.i[p]) >> kFraction<F>;
                rest.i[p] = bits.i[p] - (n.i[p] << kFraction<F>))
  const Lanes<F, kN> f = FromBits(rest) - Lanes<F, kN>(1);
  Lanes<F, kN> e;
  KIT_EACH_PART(
      e.v[p] = __builtin_convertvector(n.i[p], typename Lanes<F, kN>::Vector))
  e -= Select(is_tiny, Lanes<F, kN>(kIsDouble<F> ? 54 : 25), Lanes<F, kN>(0));
  constexpr F kHigh = kIsDouble<F> ? F(0x1.62e42fefa38p-1) : F(0x1.62e4p-1);
  constexpr F kLow =
      kIsDouble<F> ? F(0x1.ef35793c7673p-45) : F(0x1.7f7d1cf79abcap-20);
  Lanes<F, kN> y;
  if constexpr (kIsDouble<F>) {
    const Lanes<F, kN> s = f / (f + Lanes<F, kN>(2)), z = s * s;
    const Lanes<F, kN> rest_of =
        Polynomial<F>(z, 6.666666666666663e-01, 4.000000000005112e-01,
                      2.8571428552287553e-01, 2.222222538813444e-01,
                      1.8181547235976797e-01, 1.5397252695633687e-01,
                      1.3020378232599886e-01, 1.532584000064719e-01) *
        z;
    const Lanes<F, kN> square = f * f * F(0.5);
    y = e * kHigh - ((square - (s * (square + rest_of) + e * kLow)) - f);
  } else {
    const Lanes<F, kN> tail =
        Polynomial<F>(f, 3.3333331190848126e-01f, -2.4999989048734966e-01f,
                      2.0000707478390334e-01f, -1.6668480239497815e-01f,
                      1.4249936532987603e-01f, -1.2411050684153181e-01f,
                      1.1661511067784408e-01f, -1.157120072595981e-01f,
                      7.14975388926041e-02f);
    const Lanes<F, kN> z = f * f;
    y = (tail * (z * f) + e * kLow - z * F(0.5)) + f + e * kHigh;
  }
  y = Select(whole == F(0), Lanes<F, kN>(-kInfinity<F>), y);
  y = Select((whole < F(0)) | (whole != whole), Lanes<F, kN>(kNaN<F>), y);
  return Select(whole == kInfinity<F>, whole, y);
}
template <typename F, int kN>
KIT_INLINE Lanes<F, kN> log2(const Lanes<F, kN>& x) {
  return log(x) * kLog2E<F>;
}
template <typename F, int kN>
KIT_INLINE Lanes<F, kN> log10(const Lanes<F, kN>& x) {
  return log(x) * F(0.434294481903251827651);
}
// log(u) * x / (u - 1), where u is 1 + x after rounding.
template <typename F, int kN>
KIT_INLINE Lanes<F, kN> log1p(const Lanes<F, kN>& x) {
  const Lanes<F, kN> u = x + Lanes<F, kN>(1), less = u - Lanes<F, kN>(1);
  const Lanes<F, kN> y = log(u) * (x / less);
  return Select(less == F(0), x,
                Select((u == kInfinity<F>) | (u == F(0)), log(u), y));
}

template <typename F, int kN>
KIT_INLINE Lanes<F, kN> tanh(const Lanes<F, kN>& x) {
  const Lanes<F, kN> size = abs(x), z = x * x;
  Lanes<F, kN> near;
  if constexpr (kIsDouble<F>) {
    near = Polynomial<F>(
        z, -3.33333333333333e-01, 1.3333333333321915e-01,
        -5.3968253958822716e-02, 2.1869488195994758e-02, -8.863228934520264e-03,
        3.5920514657941404e-03, -1.455269750416e-03, 5.8730565165056e-04,
        -2.305073737629696e-04, 7.929233330405376e-05, -1.7094393150056695e-05);
  } else {
    near = Polynomial<F>(z, -3.333332909961712e-01f, 1.333278226399509e-01f,
                         -5.3852497468531046e-02f, 2.1003641220792565e-02f,
                         -6.1049480113042065e-03f);
  }
  const Lanes<F, kN> far =
      Lanes<F, kN>(1) - Lanes<F, kN>(2) / (exp(size + size) + Lanes<F, kN>(1));
  return copysign(Select(size < F(0.625), near * (z * size) + size, far), x);
}

template <typename F, int kN>
KIT_INLINE Lanes<F, kN> cosh(const Lanes<F, kN>& x) {
  const Lanes<F, kN> half = exp(abs(x) * F(0.5)), e = half * half;
  return half * F(0.5) * half + F(0.5) / e;
}
template <typename F, int kN>
KIT_INLINE Lanes<F, kN> sinh(const Lanes<F, kN>& x) {
  const Lanes<F, kN> size = abs(x), t = expm1(size);
  const Lanes<F, kN> half = exp(size * F(0.5));
  const Lanes<F, kN> near = (t + t / (t + Lanes<F, kN>(1))) * F(0.5);
  return copysign(Select(size < F(20), near, half * F(0.5) * half), x);
}

}  // namespace kit

#endif  // XLA_FFI_STRINGS_LANES_MATH_H_
