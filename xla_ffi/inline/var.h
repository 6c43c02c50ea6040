// Reverse mode: numbers that record what was assigned to them, on a tape.
//
// An expression holds its value and its slopes in registers until it is
// assigned. (Most tools build a tree of the operations instead, as R. J. Hogan,
// Fast reverse-mode automatic differentiation using expression templates in
// C++, ACM TOMS 40(4), 2014; types that grow with it take longer to compile.)

#ifndef XLA_FFI_INLINE_VAR_H_
#define XLA_FFI_INLINE_VAR_H_

#include <cstdint>
#include <limits>
#include <type_traits>

#include "xla_ffi/inline/for_each.h"
#include "xla_ffi/inline/numbers.h"
#include "xla_ffi/inline/tape.h"

namespace kit {

// The right side of a statement: a value, and its slopes towards numbers.
template <typename S, int kCount>
struct Expression {
  using KitScalar = S;

  Expression() = default;
  // NOLINTBEGIN(google-explicit-constructor): branches of `?:` convert
  template <typename N, IfConstant<N> = 0>
  Expression(N constant) : v(ConstantOf<S>(constant)), slopes{}, ids{} {}
  template <int kFewer, std::enable_if_t<(kFewer < kCount), int> = 0>
  Expression(const Expression<S, kFewer>& x) : v(x.v), slopes{}, ids{} {
    for (int i = 0; i < kFewer; ++i) slopes[i] = x.slopes[i], ids[i] = x.ids[i];
  }
  // NOLINTEND(google-explicit-constructor)
  KIT_ASSIGNMENTS(Expression)

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
  template <int kCount>
  KIT_NUMBER_INLINE Var(const Expression<S, kCount>& x)
      : v(x.v),
        id(Tape<S>::current->Record(
            x.slopes, x.ids, for_each_internal::IndicesBelow<kCount>())) {}
  // NOLINTEND(google-explicit-constructor)
  KIT_ASSIGNMENTS(Var)

  S v = S();
  uint32_t id = 0;
};

// The most slopes of a statement; a longer one becomes several.
inline constexpr int kMostSlopes = 12;
template <typename S>
constexpr int CountOf(const Var<S>*) {
  return 1;
}
template <typename S, int kCount>
constexpr int CountOf(const Expression<S, kCount>*) {
  return kCount;
}

// Writes the slopes towards the numbers in x, from `at` on.
template <typename S, int kCount>
KIT_NUMBER_INLINE void Append(Expression<S, kCount>& y, int at, const Var<S>& x,
                              const S& slope) {
  y.slopes[at] = slope;
  y.ids[at] = x.id;
}
template <typename S, int kCount, int kOfX, int... i>
KIT_NUMBER_INLINE void AppendEach(Expression<S, kCount>& y, int at,
                                  const Expression<S, kOfX>& x, const S& slope,
                                  for_each_internal::Indices<i...>) {
  ((y.slopes[at + i] = slope * x.slopes[i], y.ids[at + i] = x.ids[i]), ...);
}
template <typename S, int kCount, int kOfX>
KIT_NUMBER_INLINE void Append(Expression<S, kCount>& y, int at,
                              const Expression<S, kOfX>& x, const S& slope) {
  AppendEach(y, at, x, slope, for_each_internal::IndicesBelow<kOfX>());
}

template <typename S, typename X,
          int kCount = CountOf(static_cast<const X*>(nullptr))>
KIT_NUMBER_INLINE Expression<S, kCount> Chain(const S& v, const X& x,
                                              const S& slope) {
  Expression<S, kCount> y;
  y.v = v;
  Append(y, 0, x, slope);
  return y;
}
// The expression is declared in the function's outermost block: elsewhere, gcc
// before 14 copies what is returned, and through memory.
template <typename S, typename A, typename B,
          int kOfA = CountOf(static_cast<const A*>(nullptr)),
          int kOfB = CountOf(static_cast<const B*>(nullptr)),
          std::enable_if_t<(kOfA + kOfB <= kMostSlopes), int> = 0>
KIT_NUMBER_INLINE Expression<S, kOfA + kOfB> Chain(const S& v, const A& a,
                                                   const S& slope_a, const B& b,
                                                   const S& slope_b) {
  Expression<S, kOfA + kOfB> y;
  y.v = v;
  Append(y, 0, a, slope_a);
  Append(y, kOfA, b, slope_b);
  return y;
}
template <typename S, typename A, typename B,
          int kOfA = CountOf(static_cast<const A*>(nullptr)),
          int kOfB = CountOf(static_cast<const B*>(nullptr)),
          std::enable_if_t<(kOfA + kOfB > kMostSlopes), int> = 0>
KIT_NUMBER_INLINE Expression<S, 2> Chain(const S& v, const A& a,
                                         const S& slope_a, const B& b,
                                         const S& slope_b) {
  const Var<S> of_a(a), of_b(b);
  return Chain(v, of_a, slope_a, of_b, slope_b);
}

template <typename S>
struct HolderOf<Var<S>> {
  using type = Var<S>;
};
template <typename S, int kCount>
struct HolderOf<Expression<S, kCount>> {
  using type = Var<S>;
};
template <typename S>
Var<S> max(const Var<S>& x, const Var<S>& y) {
  return MaxOf(x, y);
}
template <typename S>
Var<S> min(const Var<S>& x, const Var<S>& y) {
  return MinOf(x, y);
}
template <typename S, int kCount>
Var<S> max(const Expression<S, kCount>& x, const Expression<S, kCount>& y) {
  return MaxOf(x, y);
}
template <typename S, int kCount>
Var<S> min(const Expression<S, kCount>& x, const Expression<S, kCount>& y) {
  return MinOf(x, y);
}

}  // namespace kit

namespace std {
using kit::max;  // those above, too
using kit::min;
template <typename S>
struct numeric_limits<kit::Var<S>> : numeric_limits<kit::Plain<S>> {};
}  // namespace std

#endif  // XLA_FFI_INLINE_VAR_H_
