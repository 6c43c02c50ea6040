// Numbers that know their derivatives: what dual.h and tape.h have in common.
//
// A number is a class with a `KitScalar` in which its value `v` is, and a
// function Chain(value, x, slope) that makes the number with that value whose
// slope towards x is given; and Chain(value, a, slope_a, b, slope_b). From
// these follow arithmetic, comparisons and the mathematics of <cmath>. A scalar
// may itself be a number, for derivatives of higher orders.

#ifndef XLA_FFI_INLINE_NUMBERS_H_
#define XLA_FFI_INLINE_NUMBERS_H_

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "xla_ffi/inline/for_each.h"
#include "xla_ffi/inline/half.h"
#include "xla_ffi/inline/value.h"

namespace kit {

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
using IfConstant = std::enable_if_t<kIsConstant<X>, int>;

template <typename X, typename = void>
struct ScalarOf {
  using type = void;
};
template <typename X>
struct ScalarOf<X, std::void_t<typename X::KitScalar>> {
  using type = typename X::KitScalar;
};
// The scalar of the one, or else of the other.
template <typename A, typename B>
using Scalar = typename ScalarOf<std::conditional_t<kIsNumber<A>, A, B>>::type;

template <typename X, IfNumber<X> = 0>
auto value(const X& x) {
  if constexpr (kIsNumber<typename X::KitScalar>) {
    return value(x.v);
  } else {
    return x.v;
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
    return x.v;
  } else {
    return ConstantOf<S>(x);
  }
}

#ifdef __CUDACC_RTC__
#define KIT_NUMBER_INLINE inline
#else
// The compiler then keeps the slopes of a statement in registers.
#define KIT_NUMBER_INLINE inline __attribute__((always_inline))
#endif

// The number of two, or of one and a constant, from the slopes towards them.
template <typename S, typename A, typename B, typename SlopeA, typename SlopeB>
KIT_NUMBER_INLINE auto ChainBoth(const S& v, const A& a, const SlopeA& slope_a,
                                 const B& b, const SlopeB& slope_b) {
  if constexpr (kIsNumber<A> && kIsNumber<B>) {
    const S to_a = slope_a(), to_b = slope_b();
    return Chain(v, a, to_a, b, to_b);
  } else if constexpr (kIsNumber<A>) {
    const S to_a = slope_a();
    return Chain(v, a, to_a);
  } else {
    const S to_b = slope_b();
    return Chain(v, b, to_b);
  }
}

// `name` of a and b, whose value is that of x and y, and its slopes.
#define KIT_NUMBERS(name, its_value, slope_x, slope_y)          \
  template <typename X, typename Y, IfNumbers<X, Y> = 0>        \
  KIT_NUMBER_INLINE auto name(const X& kit_x, const Y& kit_y) { \
    using S = Scalar<X, Y>;                                     \
    [[maybe_unused]] const S x = ScalarIn<S>(kit_x);            \
    [[maybe_unused]] const S y = ScalarIn<S>(kit_y);            \
    const S v = its_value;                                      \
    return ChainBoth<S>(                                        \
        v, kit_x, [&]() -> S { return slope_x; }, kit_y,        \
        [&]() -> S { return slope_y; });                        \
  }
KIT_NUMBERS(operator+, x + y, S(1), S(1))
KIT_NUMBERS(operator-, x - y, S(1), S(-1))
KIT_NUMBERS(operator*, x* y, y, x)
KIT_NUMBERS(operator/, x / y, S(1) / y, -v / y)

#define KIT_COMPARISON(name)                             \
  template <typename X, typename Y, IfNumbers<X, Y> = 0> \
  auto operator name(const X& x, const Y& y) {           \
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
  return Chain(v, x, slope);
}

// A function of one number: its value `v` and its slope at x.
#define KIT_NUMBER(name, slope_x)               \
  template <typename X, IfNumber<X> = 0>        \
  KIT_NUMBER_INLINE auto name(const X& kit_x) { \
    using S = typename X::KitScalar;            \
    using std::name;                            \
    [[maybe_unused]] const S x = kit_x.v;       \
    const S v = name(x);                        \
    const S slope = slope_x;                    \
    return Chain(v, kit_x, slope);              \
  }
// The slope of |x| is 1 at 0, as in JAX.
template <typename S>
S SignOf(const S& x) {
  return S(where(value(x) >= 0, Plain<S>(1), Plain<S>(-1)));
}
template <typename S>
S RootOf(const S& x) {
  using std::sqrt;
  return sqrt(x);
}
inline constexpr double kLn2 = 0.693147180559945309417;
inline constexpr double kLn10 = 2.302585092994045684018;
inline constexpr double kTwoBySqrtPi = 1.128379167095512573896;
template <typename S>
S GaussOf(const S& x) {
  using std::exp;
  return exp(S(-x * x)) * Plain<S>(kTwoBySqrtPi);
}
template <typename S>
S CosOf(const S& x) {
  using std::cos;
  return cos(x);
}
template <typename S>
S SinOf(const S& x) {
  using std::sin;
  return sin(x);
}
KIT_NUMBER(exp, v)
KIT_NUMBER(exp2, v* Plain<S>(kLn2))
KIT_NUMBER(expm1, v + S(1))
KIT_NUMBER(log, S(1) / x)
KIT_NUMBER(log2, S(Plain<S>(1 / kLn2)) / x)
KIT_NUMBER(log10, S(Plain<S>(1 / kLn10)) / x)
KIT_NUMBER(log1p, S(1) / (S(1) + x))
KIT_NUMBER(sqrt, S(Plain<S>(0.5)) / v)
KIT_NUMBER(cbrt, S(1) / (S(3) * v * v))
KIT_NUMBER(sin, CosOf<S>(x))
KIT_NUMBER(cos, -SinOf<S>(x))
KIT_NUMBER(tan, S(1) + v * v)
KIT_NUMBER(asin, S(1) / RootOf<S>(S(1) - x * x))
KIT_NUMBER(acos, S(-1) / RootOf<S>(S(1) - x * x))
KIT_NUMBER(atan, S(1) / (S(1) + x * x))
KIT_NUMBER(sinh, RootOf<S>(S(1) + v * v))
KIT_NUMBER(cosh, [&]() -> S {
  using std::sinh;
  return sinh(x);
}())
KIT_NUMBER(tanh, S(1) - v * v)
KIT_NUMBER(asinh, S(1) / RootOf<S>(S(1) + x * x))
KIT_NUMBER(acosh, S(1) / RootOf<S>(x * x - S(1)))
KIT_NUMBER(atanh, S(1) / (S(1) - x * x))
KIT_NUMBER(erf, GaussOf<S>(x))
KIT_NUMBER(erfc, -GaussOf<S>(x))
KIT_NUMBER(fabs, SignOf<S>(x))
KIT_NUMBER(abs, SignOf<S>(x))
#undef KIT_NUMBER

// x**y. The slope towards y is 0 at x = 0, as in JAX.
template <typename S>
S PowerOf(const S& x, const S& y) {
  using std::pow;
  return pow(x, y);
}
template <typename S>
S LogOrZero(const S& x) {
  using std::log;
  return where(value(x) == 0, S(0), S(log(x)));
}
KIT_NUMBERS(pow, PowerOf<S>(x, y),
            S(where(value(y) == 0, S(0), S(y* PowerOf<S>(x, y - S(1))))),
            v* LogOrZero<S>(x))
KIT_NUMBERS(atan2, ([&]() -> S {
              using std::atan2;
              return atan2(x, y);
            }()),
            y / (x * x + y * y), -x / (x * x + y * y))
KIT_NUMBERS(hypot, ([&]() -> S {
              using std::hypot;
              return hypot(x, y);
            }()),
            x / v, y / v)
KIT_NUMBERS(fmod, ([&]() -> S {
              using std::fmod;
              return fmod(x, y);
            }()),
            S(1), ([&]() -> S {
              using std::trunc;
              return S(-trunc(value(x) / value(y)));
            }()))
KIT_NUMBERS(copysign, ([&]() -> S {
              using std::copysign;
              return copysign(x, y);
            }()),
            ([&]() -> S {
              using std::signbit;
              return S(where(signbit(value(x)) == signbit(value(y)),
                             Plain<S>(1), Plain<S>(-1)));
            }()),
            S(0))
#undef KIT_NUMBERS

template <typename X, IfNumber<X> = 0>
auto ldexp(const X& x, int exponent) {
  return x * std::ldexp(Plain<X>(1), exponent);
}

template <typename X, typename Y, typename Z, IfNumbers<X, Y> = 0>
auto fma(const X& x, const Y& y, const Z& z) {
  return x * y + z;
}

// Steps, whose derivative is 0: plain numbers.
#define KIT_STEP(name)                   \
  template <typename X, IfNumber<X> = 0> \
  auto name(const X& x) {                \
    using std::name;                     \
    return name(value(x));               \
  }
KIT_STEP(ceil)
KIT_STEP(floor)
KIT_STEP(nearbyint)
KIT_STEP(rint)
KIT_STEP(round)
KIT_STEP(trunc)
KIT_STEP(logb)
KIT_STEP(ilogb)
KIT_STEP(llrint)
KIT_STEP(llround)
KIT_STEP(lrint)
KIT_STEP(lround)
KIT_STEP(isfinite)
KIT_STEP(isinf)
KIT_STEP(isnan)
KIT_STEP(signbit)
#undef KIT_STEP

// The type that holds any of some numbers; dual.h and tape.h say which.
template <typename X>
struct HolderOf;
template <typename X, typename Y>
using Holder = typename HolderOf<std::conditional_t<kIsNumber<X>, X, Y>>::type;

template <typename X, typename Y, IfNumbers<X, Y> = 0>
Holder<X, Y> where(bool condition, const X& x, const Y& y) {
  if (condition) return x;
  return y;
}

template <typename... X>
struct CommonOf<std::enable_if_t<(kIsNumber<X> || ...)>, X...> {
  using type =
      typename HolderOf<std::remove_reference_t<decltype((X() + ...))>>::type;
};

// The greater and the smaller one. Of equal ones each has half of the slope, as
// in JAX. (Arguments of one type take the overload that a header has for it,
// which is more special than the one in std.)
template <typename H, typename X, typename Y>
H HalfOfEach(const X& x, const Y& y) {
  return 0.5f * x + 0.5f * y;
}
template <typename X, typename Y>
Holder<X, Y> Chosen(bool are_equal, bool is_first, const X& x, const Y& y) {
  if (are_equal) return HalfOfEach<Holder<X, Y>>(x, y);
  return where(is_first, x, y);
}
template <typename X, typename Y, IfNumbers<X, Y> = 0>
Holder<X, Y> fmax(const X& x, const Y& y) {
  const auto a = value(x), b = value(y);
  return Chosen(a == b, a > b || b != b, x, y);
}
template <typename X, typename Y, IfNumbers<X, Y> = 0>
Holder<X, Y> fmin(const X& x, const Y& y) {
  const auto a = value(x), b = value(y);
  return Chosen(a == b, a < b || b != b, x, y);
}
template <typename X, typename Y>
Holder<X, Y> MaxOf(const X& x, const Y& y) {
  return Chosen(value(x) == value(y), !(value(x) < value(y)), x, y);
}
template <typename X, typename Y>
Holder<X, Y> MinOf(const X& x, const Y& y) {
  return Chosen(value(x) == value(y), !(value(y) < value(x)), x, y);
}
template <typename X, typename Y, IfNumbers<X, Y> = 0,
          std::enable_if_t<!std::is_same_v<X, Y>, int> = 0>
Holder<X, Y> max(const X& x, const Y& y) {
  return MaxOf(x, y);
}
template <typename X, typename Y, IfNumbers<X, Y> = 0,
          std::enable_if_t<!std::is_same_v<X, Y>, int> = 0>
Holder<X, Y> min(const X& x, const Y& y) {
  return MinOf(x, y);
}

// The assignments of a number's class.
#define KIT_ASSIGNMENTS(Class)               \
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
using kit::abs, kit::acos, kit::acosh, kit::asin, kit::asinh, kit::atan,
    kit::atan2, kit::atanh, kit::cbrt, kit::ceil, kit::copysign, kit::cos,
    kit::cosh, kit::erf, kit::erfc, kit::exp, kit::exp2, kit::expm1, kit::fabs,
    kit::floor, kit::fma, kit::fmax, kit::fmin, kit::fmod, kit::hypot,
    kit::ilogb, kit::isfinite, kit::isinf, kit::isnan, kit::ldexp, kit::llrint,
    kit::llround, kit::log, kit::log10, kit::log1p, kit::log2, kit::logb,
    kit::lrint, kit::lround, kit::max, kit::min, kit::nearbyint, kit::pow,
    kit::rint, kit::round, kit::signbit, kit::sin, kit::sinh, kit::sqrt,
    kit::tan, kit::tanh, kit::trunc;
}  // namespace std

#endif  // XLA_FFI_INLINE_NUMBERS_H_
