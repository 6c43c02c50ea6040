// Reverse mode: numbers that record what was assigned to them, on a tape.
//
// An expression holds its value and its slopes in registers until it is
// assigned. (Most tools build a tree of the operations instead, as R. J. Hogan,
// Fast reverse-mode automatic differentiation using expression templates in
// C++, ACM TOMS 40(4), 2014; types that grow with it take longer to compile.)

#ifndef XLA_FFI_STRINGS_DERIVE_VAR_H_
#define XLA_FFI_STRINGS_DERIVE_VAR_H_

#include <cstdint>
#include <limits>
#include <type_traits>

#include "xla_ffi/strings/derive/numbers.h"
#include "xla_ffi/strings/derive/tape.h"
#include "xla_ffi/strings/for_each.h"

namespace kit {

// The right side of a statement: a value, and its slopes towards numbers. S is
// double where OnTape, in which its variables are, is float, if it has doubles.
template <typename S, int kCount, typename OnTape = S>
struct Expression {
  using KitScalar = S;

  Expression() = default;
  Expression(const Expression&) = default;
  Expression& operator=(const Expression&) = default;
  // NOLINTBEGIN(google-explicit-constructor): branches of `?:` convert
  template <typename N, IfConstant<N> = 0>
  Expression(N constant) : v(ConstantOf<S>(constant)), slopes{}, ids{} {}
  template <typename W, int kOfX,
            std::enable_if_t<(kOfX < kCount) || !std::is_same_v<W, S>, int> = 0,
            std::enable_if_t<kOfX <= kCount && (std::is_same_v<W, S> ||
                                                std::is_same_v<W, OnTape>),
                             int> = 0>
  Expression(const Expression<W, kOfX, OnTape>& x)
      : v(ScalarAs<S>(x.v)), slopes{}, ids{} {
    for (int i = 0; i < kOfX; ++i) {
      slopes[i] = ScalarAs<S>(x.slopes[i]), ids[i] = x.ids[i];
    }
  }
  // NOLINTEND(google-explicit-constructor)
  template <typename X,
            std::enable_if_t<std::is_same_v<X, Var<OnTape>>, int> = 0>
  explicit Expression(const X& x)
      : v(ScalarAs<S>(x.v)), slopes{S(1)}, ids{x.id} {}
  KIT_NUMBER_CLASS(Expression)

  // Not initialized: an operator writes all of them.
  S v;
  S slopes[kCount];
  uint32_t ids[kCount];
};

// A variable.
template <typename S>
struct Var {
  using KitScalar = S;

  Var() = default;
  // Copies of the whole would load together what was just stored apart, for
  // which CPUs wait.
  Var(const Var& x) : v(x.v), id(x.id) {}
  Var& operator=(const Var& x) {
    v = x.v;
    id = x.id;
    return *this;
  }
  // NOLINTBEGIN(google-explicit-constructor): constants convert implicitly
  template <typename N, IfConstant<N> = 0>
  Var(N constant) : v(ConstantOf<S>(constant)) {}
  template <typename N,
            std::enable_if_t<std::is_same_v<N, S> && kIsNumber<N>, int> = 0>
  Var(const N& scalar) : v(scalar) {}
  template <typename W, int kCount>
  KIT_NUMBER_INLINE Var(const Expression<W, kCount, S>& x)
      : v(ScalarAs<S>(x.v)),
        id(Tape<S>::current->Record(
            x.slopes, x.ids, for_each_internal::IndicesBelow<kCount>())) {}
  // NOLINTEND(google-explicit-constructor)
  // Of a number in a step of kit::scan. As `?:` knows one way only, the other
  // one is implicit.
  template <typename W, int kCount>
  KIT_NUMBER_INLINE explicit Var(const Jet<W, kCount>& x)
      : v(ScalarAs<S>(x.v)), id(RecordJet(*Tape<S>::current, x)) {}
  template <typename W, int kCount>
  KIT_NUMBER_INLINE Var& operator=(const Jet<W, kCount>& x) {
    return *this = Var(x);
  }
  KIT_NUMBER_CLASS(Var)

  S v = S();
  uint32_t id = 0;
};

// The most slopes of a statement; a longer one becomes several.
inline constexpr int kMostSlopes = 12;
template <typename X>
inline constexpr int kSlopesOf = 0;
template <typename S>
inline constexpr int kSlopesOf<Var<S>> = 1;
template <typename S, int kCount, typename OnTape>
inline constexpr int kSlopesOf<Expression<S, kCount, OnTape>> = kCount;

template <typename X>
struct TapeOf;
template <typename S>
struct TapeOf<Var<S>> {
  using type = S;
};
template <typename S, int kCount, typename OnTape>
struct TapeOf<Expression<S, kCount, OnTape>> {
  using type = OnTape;
};
template <typename X>
using OnTapeOf = typename TapeOf<X>::type;

// Writes the slopes towards the numbers in x, from `at` on.
template <typename S, int kCount, typename OnTape>
KIT_NUMBER_INLINE void Append(Expression<S, kCount, OnTape>& y, int at,
                              const Var<OnTape>& x, const S& slope) {
  y.slopes[at] = slope;
  y.ids[at] = x.id;
}
template <typename S, int kCount, typename OnTape, typename W, int kOfX,
          int... i>
KIT_NUMBER_INLINE void AppendEach(Expression<S, kCount, OnTape>& y, int at,
                                  const Expression<W, kOfX, OnTape>& x,
                                  const S& slope,
                                  for_each_internal::Indices<i...>) {
  ((y.slopes[at + i] = slope * ScalarAs<S>(x.slopes[i]),
    y.ids[at + i] = x.ids[i]),
   ...);
}
template <typename S, int kCount, typename OnTape, typename W, int kOfX>
KIT_NUMBER_INLINE void Append(Expression<S, kCount, OnTape>& y, int at,
                              const Expression<W, kOfX, OnTape>& x,
                              const S& slope) {
  AppendEach(y, at, x, slope, for_each_internal::IndicesBelow<kOfX>());
}

template <Slopes kSlopes, typename S, typename X, int kCount = kSlopesOf<X>>
KIT_NUMBER_INLINE Expression<S, kCount, OnTapeOf<X>> Chain(const S& v,
                                                           const X& x,
                                                           const S& slope) {
  Expression<S, kCount, OnTapeOf<X>> y;
  y.v = v;
  Append(y, 0, x, slope);
  return y;
}
// The expression is declared in the function's outermost block: elsewhere, gcc
// before 14 copies what is returned, and through memory.
template <Slopes kSlopes, typename S, typename A, typename B,
          int kOfA = kSlopesOf<A>, int kOfB = kSlopesOf<B>,
          std::enable_if_t<(kOfA + kOfB <= kMostSlopes), int> = 0>
KIT_NUMBER_INLINE Expression<S, kOfA + kOfB, OnTapeOf<A>> Chain(
    const S& v, const A& a, const S& slope_a, const B& b, const S& slope_b) {
  Expression<S, kOfA + kOfB, OnTapeOf<A>> y;
  y.v = v;
  Append(y, 0, a, slope_a);
  Append(y, kOfA, b, slope_b);
  return y;
}
template <Slopes kSlopes, typename S, typename A, typename B,
          int kOfA = kSlopesOf<A>, int kOfB = kSlopesOf<B>,
          std::enable_if_t<(kOfA + kOfB > kMostSlopes), int> = 0>
KIT_NUMBER_INLINE Expression<S, 2, OnTapeOf<A>> Chain(const S& v, const A& a,
                                                      const S& slope_a,
                                                      const B& b,
                                                      const S& slope_b) {
  const Var<OnTapeOf<A>> of_a(a), of_b(b);
  return Chain<kSlopes>(v, of_a, slope_a, of_b, slope_b);
}

template <typename S>
Var<S> Times(const Var<S>& slope, const Var<S>& d) {
  return Chain<Slopes::kOthers>(S(Times(slope.v, d.v)), slope, d.v, d, slope.v);
}

template <typename S>
Var<S> TimesOrZero(const Var<S>& a, const Var<S>& b) {
  return Chain<Slopes::kOthers>(S(TimesOrZero(a.v, b.v)), a, b.v, b, a.v);
}

// A variable, or for more bits than a variable has an expression.
template <typename X, typename Y, typename S, typename OnTape>
struct HolderOnTape {
  static constexpr int kBoth = kSlopesOf<X> + kSlopesOf<Y>;
  using type =
      Expression<S, (kBoth < kMostSlopes ? kBoth : kMostSlopes), OnTape>;
};
template <typename X, typename Y, typename S>
struct HolderOnTape<X, Y, S, S> {
  using type = Var<S>;
};
template <typename Of, typename X, typename Y, typename S>
struct HolderFor<Var<Of>, X, Y, S> : HolderOnTape<X, Y, S, Of> {};
template <typename Of, int kCount, typename OnTape, typename X, typename Y,
          typename S>
struct HolderFor<Expression<Of, kCount, OnTape>, X, Y, S>
    : HolderOnTape<X, Y, S, OnTape> {};

}  // namespace kit

namespace std {
template <typename S>
struct numeric_limits<kit::Var<S>> : numeric_limits<kit::Plain<S>> {};
}  // namespace std

#endif  // XLA_FFI_STRINGS_DERIVE_VAR_H_
