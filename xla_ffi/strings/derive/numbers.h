// Numbers that know their derivatives: what dual.h, var.h and jet.h have in
// common.
//
// A number is a class with a `KitScalar` in which its value `v` is, and a
// function Chain<kSlopes>(value, x, slope) that makes the number with that
// value whose slope towards x is given; and one of (value, a, slope_a, b,
// slope_b). From these follow arithmetic, comparisons and the mathematics of
// <cmath>. A scalar may itself be a number, for derivatives of higher orders.
//
// Beside a number of floats a double counts as double, as in C++: the result is
// a number of doubles, which is rounded when it is assigned to one of floats.

#ifndef XLA_FFI_STRINGS_DERIVE_NUMBERS_H_
#define XLA_FFI_STRINGS_DERIVE_NUMBERS_H_

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <type_traits>
#include <utility>

#include "xla_ffi/strings/for_each.h"
#include "xla_ffi/strings/half.h"
#include "xla_ffi/strings/refusals.h"
#include "xla_ffi/strings/value.h"

namespace kit {

template <typename S, int kCount>
struct Dual;  // dual.h
template <typename S>
struct Var;  // var.h
template <typename S, int kCount, typename OnTape>
struct Expression;
template <typename S, int kCount>
struct Jet;  // jet.h

// What may stand beside a number: another one, or a constant, which may be one
// of each lane, as kit::value returns them: derived_lanes.h.
template <typename X>
inline constexpr bool kIsInLanes = false;
template <typename X>
inline constexpr bool kIsConstant = std::is_arithmetic_v<X> || kIsInLanes<X>;
template <typename Storage>
inline constexpr bool kIsConstant<Half<Storage>> = true;
template <typename A, typename B>
using IfNumbers = std::enable_if_t<(kIsNumber<A> && kIsNumber<B>) ||
                                       (kIsNumber<A> && kIsConstant<B>) ||
                                       (kIsConstant<A> && kIsNumber<B>),
                                   int>;
template <typename X>
using IfNumber = std::enable_if_t<kIsNumber<X>, int>;
template <typename X>
using IfNotNumber = std::enable_if_t<!kIsNumber<X>, int>;
template <typename X>
using IfConstant = std::enable_if_t<kIsConstant<X>, int>;

template <typename X, IfNumber<X> = 0>
auto value(const X& x) {
  if constexpr (kIsNumber<typename X::KitScalar>) {
    return value(x.v);
  } else {
    return x.v;
  }
}

// A scalar with values of the type P.
template <typename S, typename P>
struct WithPlain {
  using type = P;
};
template <typename S, int kCount, typename P>
struct WithPlain<Dual<S, kCount>, P> {
  using type = Dual<typename WithPlain<S, P>::type, kCount>;
};

// Whether W differs from S in the type of its values alone; to which float it
// then rounds or widens.
template <typename W, typename S>
using IfOther = std::enable_if_t<
    !std::is_same_v<W, S>,
    std::enable_if_t<std::is_same_v<typename WithPlain<W, Plain<S>>::type, S>,
                     int>>;
template <typename W>
using IfRounds = std::enable_if_t<std::is_same_v<Plain<W>, double>, int>;
template <typename W>
using IfWidens = std::enable_if_t<std::is_same_v<Plain<W>, float>, int>;

// Whether the values of a scalar are of one type, whatever stands beside it:
// those in lanes, and those of a tape, as third derivatives have them.
template <typename S>
inline constexpr bool kIsFixed = kIsInLanes<S>;
template <typename S, int kCount>
inline constexpr bool kIsFixed<Dual<S, kCount>> = kIsFixed<S>;
template <typename S>
inline constexpr bool kIsFixed<Var<S>> = true;
template <typename S, typename P>
struct WithPlain<Var<S>, P> {
  static_assert(std::is_same_v<Plain<S>, P>,
                "in third derivatives a double does not stand beside a float: "
                "write 0.5f, or A(0.5)");
  using type = Var<S>;
};

// Whether what stands beside a number counts as double. Functions of <cmath>
// take integers as double too, where values are not of one type.
template <typename X, bool kInFunction>
constexpr bool CountsAsDouble() {
  if constexpr (std::is_integral_v<X>) return kInFunction;
  if constexpr (std::is_floating_point_v<X>) return sizeof(X) > sizeof(float);
  return std::is_same_v<Plain<X>, double>;
}
// The scalar of what two make, one of which is a number.
template <typename X, typename Y, bool kInFunction = false>
struct ScalarOfBoth {
  using Number = std::conditional_t<kIsNumber<X>, X, Y>;
  using Own = typename Number::KitScalar;
  static constexpr bool kIntegers = kInFunction && !kIsFixed<Own>;
  static constexpr bool kIsDouble =
      CountsAsDouble<X, kIntegers>() || CountsAsDouble<Y, kIntegers>();
  using type =
      typename WithPlain<Own,
                         std::conditional_t<kIsDouble, double, float>>::type;
};
template <typename X, typename Y, bool kInFunction = false>
using Scalar = typename ScalarOfBoth<X, Y, kInFunction>::type;

#ifdef __CUDACC_RTC__
#define KIT_NUMBER_INLINE inline
#else
// The compiler then keeps the slopes of a statement in registers.
#define KIT_NUMBER_INLINE inline __attribute__((always_inline))
#endif

// A scalar as one with values of another type.
template <typename S, typename X>
KIT_NUMBER_INLINE decltype(auto) ScalarAs(const X& x) {
  if constexpr (std::is_same_v<S, X>) {
    return (x);
  } else if constexpr (std::is_arithmetic_v<S>) {
    return static_cast<S>(x);
  } else {
    return S(x);
  }
}
template <typename S, typename X>
S ConstantOf(const X& x) {
  if constexpr (kIsInLanes<X>) {
    return S(x);
  } else {
    return S(static_cast<Plain<S>>(x));
  }
}
template <typename S, typename X>
S ScalarIn(const X& x) {
  if constexpr (kIsNumber<X>) {
    return ScalarAs<S>(x.v);
  } else {
    return ConstantOf<S>(x);
  }
}
// slope * d, but 0 where d is: what does not change has no part in a slope that
// is infinite or NaN.
template <typename S, IfNotNumber<S> = 0>
KIT_NUMBER_INLINE S Times(const S& slope, const S& d) {
  return where(d == S(0), S(0), S(slope * d));
}
// The same where neither may be.
template <typename S, IfNotNumber<S> = 0>
KIT_NUMBER_INLINE S TimesOrZero(const S& a, const S& b) {
  return where((a == S(0)) | (b == S(0)), S(0), S(a * b));
}
template <typename S, int kCount>
Dual<S, kCount> TimesOrZero(const Dual<S, kCount>& a,
                            const Dual<S, kCount>& b) {
  Dual<S, kCount> y;
  y.v = TimesOrZero(a.v, b.v);
  for (int i = 0; i < kCount; ++i) {
    y.d[i] = TimesOrZero(a.d[i], b.v) + TimesOrZero(a.v, b.d[i]);
  }
  return y;
}
template <typename S, int kCount>
Dual<S, kCount> Times(const Dual<S, kCount>& slope, const Dual<S, kCount>& d) {
  Dual<S, kCount> y;
  y.v = Times(slope.v, d.v);
  for (int i = 0; i < kCount; ++i) {
    y.d[i] = TimesOrZero(slope.d[i], d.v) + Times(slope.v, d.d[i]);
  }
  return y;
}

// What the slopes of a function are: 1 and -1, which no test is needed for; the
// factors of a product, which are not tested in lanes, where that takes longer
// than the product; others.
enum class Slopes { kOnes, kFactors, kOthers };
template <Slopes kSlopes, typename S>
KIT_NUMBER_INLINE S TimesSlope(const S& slope, const S& d) {
  if constexpr (!kIsNumber<S> &&
                (kSlopes == Slopes::kOnes ||
                 (kSlopes == Slopes::kFactors && kIsInLanes<S>))) {
    return slope * d;
  } else {
    return Times(slope, d);
  }
}
// So that Chain<...>(...) is a template for the compiler; each kind of numbers
// has its own.
template <Slopes kSlopes>
void Chain();

// The number of two, or of one and a constant, from the slopes towards them.
template <Slopes kSlopes, typename S, typename A, typename B, typename SlopeA,
          typename SlopeB>
KIT_NUMBER_INLINE auto ChainBoth(const S& v, const A& a, const SlopeA& slope_a,
                                 const B& b, const SlopeB& slope_b) {
  if constexpr (kIsNumber<A> && kIsNumber<B>) {
    const S to_a = slope_a(), to_b = slope_b();
    return Chain<kSlopes>(v, a, to_a, b, to_b);
  } else if constexpr (kIsNumber<A>) {
    const S to_a = slope_a();
    return Chain<kSlopes>(v, a, to_a);
  } else {
    const S to_b = slope_b();
    return Chain<kSlopes>(v, b, to_b);
  }
}

// `name` of a and b, whose value is that of x and y, and its slopes.
#define KIT_NUMBERS(name, kInFunction, kSlopes, its_value, slope_x, slope_y) \
  template <typename X, typename Y, IfNumbers<X, Y> = 0>                     \
  KIT_NUMBER_INLINE auto name(const X& kit_x, const Y& kit_y) {              \
    using S = Scalar<X, Y, kInFunction>;                                     \
    [[maybe_unused]] const S x = ScalarIn<S>(kit_x);                         \
    [[maybe_unused]] const S y = ScalarIn<S>(kit_y);                         \
    const S v = its_value;                                                   \
    return ChainBoth<kSlopes, S>(                                            \
        v, kit_x, [&]() -> S { return slope_x; }, kit_y,                     \
        [&]() -> S { return slope_y; });                                     \
  }
KIT_NUMBERS(operator+, false, Slopes::kOnes, x + y, S(1), S(1))
KIT_NUMBERS(operator-, false, Slopes::kOnes, x - y, S(1), S(-1))
KIT_NUMBERS(operator*, false, Slopes::kFactors, x* y, y, x)
// One division for both slopes.
KIT_NUMBERS(operator/, false, Slopes::kOthers, x / y, S(1) / y, -v*(S(1) / y))

#define KIT_COMPARISON(name)                             \
  template <typename X, typename Y, IfNumbers<X, Y> = 0> \
  auto operator name(const X& x, const Y& y) {           \
    using P = Plain<Scalar<X, Y>>;                       \
    static_assert(std::is_floating_point_v<P>);          \
    return value(x) name value(y);                       \
  }
KIT_COMPARISON(<)
KIT_COMPARISON(>)
KIT_COMPARISON(<=)
KIT_COMPARISON(>=)
KIT_COMPARISON(==)
KIT_COMPARISON(!=)
#undef KIT_COMPARISON

template <typename X, IfNumber<X> = 0>
X operator+(const X& x) {
  return x;
}
template <typename X, IfNumber<X> = 0>
KIT_NUMBER_INLINE auto operator-(const X& x) {
  using S = typename X::KitScalar;
  const S v = -x.v, slope = S(-1);
  return Chain<Slopes::kOnes>(v, x, slope);
}

// The functions of <cmath>, for scalars of any kind.
#define KIT_OF_SCALAR(Name, name) \
  template <typename S>           \
  S Name(const S& x) {            \
    using std::name;              \
    return name(x);               \
  }
KIT_OF_SCALAR(CosOf, cos)
KIT_OF_SCALAR(CoshOf, cosh)
KIT_OF_SCALAR(ExpOf, exp)
KIT_OF_SCALAR(LogOf, log)
KIT_OF_SCALAR(RootOf, sqrt)
KIT_OF_SCALAR(SinOf, sin)
KIT_OF_SCALAR(SinhOf, sinh)
KIT_OF_SCALAR(TruncOf, trunc)
#undef KIT_OF_SCALAR
#define KIT_OF_SCALARS(Name, name)  \
  template <typename S, typename Y> \
  S Name(const S& x, const Y& y) {  \
    using std::name;                \
    return name(x, y);              \
  }
KIT_OF_SCALARS(PowerOf, pow)
KIT_OF_SCALARS(AngleOf, atan2)
KIT_OF_SCALARS(LengthOf, hypot)
KIT_OF_SCALARS(RestOf, fmod)
KIT_OF_SCALARS(WithSignOf, copysign)
#undef KIT_OF_SCALARS

// The slope of |x| is 1 at 0, as in JAX.
template <typename S>
S SignOf(const S& x) {
  return S(where(value(x) >= Plain<S>(0), Plain<S>(1), Plain<S>(-1)));
}
inline constexpr double kLn2 = 0.693147180559945309417;
inline constexpr double kLn10 = 2.302585092994045684018;
inline constexpr double kTwoBySqrtPi = 1.128379167095512573896;
// The slope of erf. Where it is 0 in any number of bits, so are its slopes,
// also at infinity, where they are the product of 0 and an infinite one.
template <typename S>
S GaussOf(const S& x) {
  const S square = x * x;
  return S(where(value(square) > Plain<S>(1e3), S(0),
                 ExpOf(S(-square)) * Plain<S>(kTwoBySqrtPi)));
}
// 1 - x * x, without losing digits near 1 or, of its slope, near 0.
template <typename S>
S OneLessSquare(const S& x) {
  const auto size = value(x * x);
  return S(where(size > Plain<S>(0.25), S((S(1) - x) * (S(1) + x)),
                 S(S(1) - x * x)));
}
// 1 / sqrt(x * x + sign), whose square does not overflow.
template <typename S>
S AreaSlopeOf(const S& x, int sign) {
  const S size = where(value(x) >= Plain<S>(0), x, S(-x));
  const auto is_large = value(size) > Plain<S>(1e9);
  const S z = where(is_large, S(2), x);  // no infinite factor of what is unused
  const S square = sign > 0 ? S(z * z + S(1)) : S((z - S(1)) * (z + S(1)));
  return S(where(is_large, S(S(1) / size), S(S(1) / RootOf(square))));
}
// 1 / (3 v^2), whose slope at 0 is infinite.
template <typename S>
S CbrtSlopeOf(const S& v) {
  const S inverse = S(1) / v;
  return inverse * inverse / S(3);
}

// The functions of one number: name, and the slope at x, where the function is
// v.
#define KIT_FUNCTIONS(F)                    \
  F(abs, SignOf(x))                         \
  F(acos, S(-1) / RootOf(OneLessSquare(x))) \
  F(acosh, AreaSlopeOf(x, -1))              \
  F(asin, S(1) / RootOf(OneLessSquare(x)))  \
  F(asinh, AreaSlopeOf(x, 1))               \
  F(atan, S(1) / (S(1) + x * x))            \
  F(atanh, S(1) / OneLessSquare(x))         \
  F(cbrt, CbrtSlopeOf(v))                   \
  F(cos, -SinOf(x))                         \
  F(cosh, SinhOf(x))                        \
  F(erf, GaussOf(x))                        \
  F(erfc, -GaussOf(x))                      \
  F(exp, v)                                 \
  F(exp2, v* Plain<S>(kLn2))                \
  F(expm1, ExpOf(x))                        \
  F(fabs, SignOf(x))                        \
  F(log, S(1) / x)                          \
  F(log10, S(Plain<S>(1 / kLn10)) / x)      \
  F(log1p, S(1) / (S(1) + x))               \
  F(log2, S(Plain<S>(1 / kLn2)) / x)        \
  F(sin, CosOf(x))                          \
  F(sinh, CoshOf(x))                        \
  F(sqrt, S(Plain<S>(0.5)) / v)             \
  F(tan, S(1) + v * v)                      \
  F(tanh, OneLessSquare(v))
#define KIT_NUMBER(name, slope_x)                   \
  template <typename X, IfNumber<X> = 0>            \
  KIT_NUMBER_INLINE auto name(const X& kit_x) {     \
    using S = typename X::KitScalar;                \
    using std::name;                                \
    [[maybe_unused]] const S x = kit_x.v;           \
    const S v = name(x);                            \
    const S slope = slope_x;                        \
    return Chain<Slopes::kOthers>(v, kit_x, slope); \
  }
KIT_FUNCTIONS(KIT_NUMBER)
#undef KIT_NUMBER

// The slope of hypot(x, y), which is v, towards x. At 0, and where it is
// infinite, it is JAX's.
template <typename S>
S HypotSlopeOf(const S& x, const S& v) {
  using P = Plain<S>;
  const auto size = value(v);
  return S(where(
      size == P(0), S(P(0.5)),
      S(where(size == std::numeric_limits<P>::infinity(), S(0), S(x / v)))));
}
// x / (x * x + y * y), whose squares neither overflow nor vanish.
template <typename S>
S Atan2SlopeOf(const S& x, const S& y) {
  const S length = LengthOf(x, y);
  return S(x / length) / length;
}

// The functions of two numbers: name, value, slope towards x, towards y.
#define KIT_FUNCTIONS_OF_TWO(F)                                        \
  F(atan2, AngleOf(x, y), Atan2SlopeOf(y, x), -Atan2SlopeOf(x, y))     \
  F(copysign, WithSignOf(x, y), SignOf(x) * WithSignOf(S(1), y), S(0)) \
  F(fmod, RestOf(x, y), S(1), S(-TruncOf(value(x) / value(y))))        \
  F(hypot, LengthOf(x, y), HypotSlopeOf(x, v), HypotSlopeOf(y, v))
#define KIT_FUNCTION_OF_TWO(name, its_value, slope_x, slope_y) \
  KIT_NUMBERS(name, true, Slopes::kOthers, its_value, slope_x, slope_y)
KIT_FUNCTIONS_OF_TWO(KIT_FUNCTION_OF_TWO)
#undef KIT_FUNCTION_OF_TWO
#undef KIT_NUMBERS

// x^y. A constant exponent stays one, and its logarithm is not asked for. The
// slope towards y is 0 at x = 0, as in JAX.
template <typename S>
S LogOrZero(const S& x) {
  return S(where(value(x) == Plain<S>(0), S(0), LogOf(x)));
}
template <typename S, typename Y>
S PowerSlopeOf(const S& x, const Y& y) {
  return S(where(value(y) == Plain<S>(0), S(0),
                 S(y * PowerOf(x, Y(y - Plain<S>(1))))));
}
template <typename X, typename Y, IfNumbers<X, Y> = 0>
KIT_NUMBER_INLINE auto pow(const X& kit_x, const Y& kit_y) {
  using S = Scalar<X, Y, true>;
  const S x = ScalarIn<S>(kit_x);
  if constexpr (kIsNumber<Y>) {
    const S y = ScalarIn<S>(kit_y);
    const S v = PowerOf(x, y);
    return ChainBoth<Slopes::kOthers, S>(
        v, kit_x, [&]() -> S { return PowerSlopeOf(x, y); }, kit_y,
        [&]() -> S { return v * LogOrZero(x); });
  } else {
    using P = std::conditional_t<kIsInLanes<Y>, Y, Plain<S>>;
    const P y = static_cast<P>(kit_y);
    const S v = PowerOf(x, y), slope = PowerSlopeOf(x, y);
    return Chain<Slopes::kOthers>(v, kit_x, slope);
  }
}

template <typename X, typename Y, typename Z, IfNumbers<X, Y> = 0>
auto fma(const X& x, const Y& y, const Z& z) {
  using P = Plain<Scalar<X, Z, true>>;
  return P(1) * x * y + z;
}
template <typename X, typename Y, typename Z, IfNumber<Z> = 0,
          std::enable_if_t<kIsConstant<X> && kIsConstant<Y>, int> = 0>
auto fma(const X& x, const Y& y, const Z& z) {
  return x * y + z;
}

// Steps, whose derivative is 0: plain numbers.
#define KIT_STEPS(F) \
  F(ceil)            \
  F(floor)           \
  F(ilogb)           \
  F(isfinite)        \
  F(isinf)           \
  F(isnan)           \
  F(llrint)          \
  F(llround)         \
  F(logb)            \
  F(lrint)           \
  F(lround)          \
  F(nearbyint)       \
  F(rint)            \
  F(round)           \
  F(signbit)         \
  F(trunc)
#define KIT_STEP(name)                   \
  template <typename X, IfNumber<X> = 0> \
  auto name(const X& x) {                \
    using std::name;                     \
    return name(value(x));               \
  }
KIT_STEPS(KIT_STEP)
#undef KIT_STEP

// The type that holds either of two, of which at least one is a number; dual.h,
// var.h and jet.h say which.
template <typename Number, typename X, typename Y, typename S>
struct HolderFor;
template <typename X, typename Y, bool kInFunction = false>
using Holder = typename HolderFor<std::conditional_t<kIsNumber<X>, X, Y>, X, Y,
                                  Scalar<X, Y, kInFunction>>::type;

template <typename H, typename X, typename Y>
H OneOf(bool is_first, const X& x, const Y& y) {
  if (is_first) return H(x);
  return H(y);
}
template <typename X, typename Y, IfNumbers<X, Y> = 0>
Holder<X, Y> where(bool condition, const X& x, const Y& y) {
  return OneOf<Holder<X, Y>>(condition, x, y);
}

template <typename... X>
struct CommonOf<std::enable_if_t<(kIsNumber<X> || ...)>, X...> {
  using Sum = std::remove_reference_t<decltype((X() + ...))>;
  using type = Holder<Sum, Sum>;
};

// x * 2^exponent, in three steps whose factors are neither 0 nor infinite.
template <typename X, IfNumber<X> = 0>
auto ldexp(const X& x, int exponent) {
  using P = Plain<X>;
  constexpr int kMost = sizeof(P) == sizeof(double) ? 3 * 1022 : 3 * 126;
  if (exponent > kMost) exponent = kMost;
  if (exponent < -kMost) exponent = -kMost;
  const int third = exponent / 3;
  const P factor = std::ldexp(P(1), third);
  const Holder<X, X> most = x * factor * factor;
  return most * std::ldexp(P(1), exponent - 2 * third);
}

// The greater and the smaller one, of C: of equal ones the second, as in JAX.
template <typename X, typename Y, IfNumbers<X, Y> = 0>
auto fmax(const X& x, const Y& y) {
  const auto a = value(x);
  const auto b = value(y);
  return OneOf<Holder<X, Y, true>>((a > b) | (b != b), x, y);
}
template <typename X, typename Y, IfNumbers<X, Y> = 0>
auto fmin(const X& x, const Y& y) {
  const auto a = value(x);
  const auto b = value(y);
  return OneOf<Holder<X, Y, true>>((a < b) | (b != b), x, y);
}

// Those of C++: of equal ones each has half of the slope, as in JAX.
template <typename H, typename S, typename X, typename Y>
H HalfOfEach(const S& v, const X& x, const Y& y) {
  const auto half = [] { return S(Plain<S>(0.5)); };
  return H(ChainBoth<Slopes::kOnes, S>(v, x, half, y, half));
}
template <typename H, typename X, typename Y>
H Chosen(bool are_equal, bool is_first, const X& x, const Y& y) {
  using S = Scalar<X, Y>;
  if (are_equal) return HalfOfEach<H>(ScalarIn<S>(x), x, y);
  return OneOf<H>(is_first, x, y);
}
template <typename X, typename Y>
Holder<X, Y> MaxOf(const X& x, const Y& y) {
  const auto a = value(x);
  const auto b = value(y);
  return Chosen<Holder<X, Y>>(a == b, !(a < b), x, y);
}
template <typename X, typename Y>
Holder<X, Y> MinOf(const X& x, const Y& y) {
  const auto a = value(x);
  const auto b = value(y);
  return Chosen<Holder<X, Y>>(a == b, !(b < a), x, y);
}
template <typename X, typename Y, typename Z>
auto ClampOf(const X& x, const Y& least, const Z& most) {
  return MinOf(MaxOf(x, least), most);
}
template <typename X, typename Y>
auto MinMaxOf(const X& x, const Y& y) {
  using H = Holder<X, Y>;
  const auto a = value(x);
  const auto b = value(y);
  return std::pair<H, H>{Chosen<H>(a == b, !(b < a), x, y),
                         Chosen<H>(a == b, b < a, x, y)};
}
template <typename N>
Holder<N, N> MaxOfAll(std::initializer_list<N> all) {
  Holder<N, N> most(*all.begin());
  for (const N* x = all.begin() + 1; x != all.end(); ++x) {
    most = MaxOf(most, *x);
  }
  return most;
}
template <typename N>
Holder<N, N> MinOfAll(std::initializer_list<N> all) {
  Holder<N, N> least(*all.begin());
  for (const N* x = all.begin() + 1; x != all.end(); ++x) {
    least = MinOf(least, *x);
  }
  return least;
}

// Of arguments of several types; of one type, which are more special than those
// in std; and std::max<A>(x, y), which is more special too, as nothing tells
// its type but the author.
template <typename X, typename Y>
using IfNumbersOfTwoTypes =
    std::enable_if_t<!std::is_same_v<X, Y>, IfNumbers<X, Y>>;
template <typename N>
struct SameType {
  using type = N;
};
template <typename N>
using Same = typename SameType<N>::type;
#define KIT_UNWRAP(...) __VA_ARGS__
#define KIT_CHOICES_OF(parameters, Number)                               \
  template <KIT_UNWRAP parameters>                                       \
  auto max(const KIT_UNWRAP Number& x, const KIT_UNWRAP Number& y) {     \
    return MaxOf(x, y);                                                  \
  }                                                                      \
  template <KIT_UNWRAP parameters>                                       \
  auto min(const KIT_UNWRAP Number& x, const KIT_UNWRAP Number& y) {     \
    return MinOf(x, y);                                                  \
  }                                                                      \
  template <KIT_UNWRAP parameters>                                       \
  auto minmax(const KIT_UNWRAP Number& x, const KIT_UNWRAP Number& y) {  \
    return MinMaxOf(x, y);                                               \
  }                                                                      \
  template <KIT_UNWRAP parameters>                                       \
  auto clamp(const KIT_UNWRAP Number& x, const KIT_UNWRAP Number& least, \
             const KIT_UNWRAP Number& most) {                            \
    return ClampOf(x, least, most);                                      \
  }                                                                      \
  template <KIT_UNWRAP parameters>                                       \
  auto max(std::initializer_list<KIT_UNWRAP Number> all) {               \
    return MaxOfAll(all);                                                \
  }                                                                      \
  template <KIT_UNWRAP parameters>                                       \
  auto min(std::initializer_list<KIT_UNWRAP Number> all) {               \
    return MinOfAll(all);                                                \
  }                                                                      \
  template <KIT_UNWRAP parameters>                                       \
  auto minmax(std::initializer_list<KIT_UNWRAP Number> all) {            \
    const auto least = MinOfAll(all), most = MaxOfAll(all);              \
    return std::pair{least, most};                                       \
  }
KIT_CHOICES_OF((typename S, int kCount), (Dual<S, kCount>))
KIT_CHOICES_OF((typename S, int kCount), (Jet<S, kCount>))
KIT_CHOICES_OF((typename S), (Var<S>))
KIT_CHOICES_OF((typename S, int kCount, typename OnTape),
               (Expression<S, kCount, OnTape>))
KIT_CHOICES_OF((typename N, IfNumber<N> = 0), (Same<N>))
#undef KIT_CHOICES_OF
#undef KIT_UNWRAP
template <typename X, typename Y, IfNumbersOfTwoTypes<X, Y> = 0>
auto max(const X& x, const Y& y) {
  return MaxOf(x, y);
}
template <typename X, typename Y, IfNumbersOfTwoTypes<X, Y> = 0>
auto min(const X& x, const Y& y) {
  return MinOf(x, y);
}
template <typename X, typename Y, IfNumbersOfTwoTypes<X, Y> = 0>
auto minmax(const X& x, const Y& y) {
  return MinMaxOf(x, y);
}
template <typename X, typename Y, typename Z,
          std::enable_if_t<
              !std::is_same_v<X, Y> || !std::is_same_v<Y, Z>,
              std::enable_if_t<kIsNumber<X> || kIsNumber<Y> || kIsNumber<Z>,
                               int>> = 0>
auto clamp(const X& x, const Y& least, const Z& most) {
  return ClampOf(x, least, most);
}

// NVRTC, which has no strings of rows, has no Address.
#ifdef __CUDACC_RTC__
#define KIT_ADDRESS_OF(Class) const Class* operator&() const = delete;
#else
#define KIT_ADDRESS_OF(Class)                                 \
  Address<Class> operator&() { return Address<Class>(this); } \
  Address<const Class> operator&() const { return Address<const Class>(this); }
#endif

// What a number's class has: its assignments, and what its bytes are not for.
#define KIT_NUMBER_CLASS(Class)              \
  ~Class() {} /* so that no union has one */ \
  KIT_ADDRESS_OF(Class)                      \
  template <typename X>                      \
  Class& operator+=(const X& x) {            \
    return *this = Class(*this + x);         \
  }                                          \
  template <typename X>                      \
  Class& operator-=(const X& x) {            \
    return *this = Class(*this - x);         \
  }                                          \
  template <typename X>                      \
  Class& operator*=(const X& x) {            \
    return *this = Class(*this * x);         \
  }                                          \
  template <typename X>                      \
  Class& operator/=(const X& x) {            \
    return *this = Class(*this / x);         \
  }                                          \
  Class& operator++() { return *this += 1; } \
  Class& operator--() { return *this -= 1; } \
  explicit operator bool() const { return ::kit::value(*this) != 0; }

}  // namespace kit

// Authors write std::exp(x).
namespace std {
#define KIT_IN_STD(name, ...) using kit::name;
KIT_FUNCTIONS(KIT_IN_STD)
KIT_FUNCTIONS_OF_TWO(KIT_IN_STD)
KIT_STEPS(KIT_IN_STD)
#undef KIT_IN_STD
using kit::clamp, kit::fma, kit::fmax, kit::fmin, kit::ldexp, kit::max,
    kit::min, kit::minmax, kit::pow;
}  // namespace std

#endif  // XLA_FFI_STRINGS_DERIVE_NUMBERS_H_
