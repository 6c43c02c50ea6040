// Forward mode: a number with its slopes towards some inputs.

#ifndef XLA_FFI_INLINE_DUAL_H_
#define XLA_FFI_INLINE_DUAL_H_

#include <limits>
#include <type_traits>

#include "xla_ffi/inline/numbers.h"

namespace kit {

template <typename S, int kCount>
struct Dual {
  using KitScalar = S;

  Dual() = default;
  // NOLINTBEGIN(google-explicit-constructor): constants convert implicitly
  template <typename N, IfConstant<N> = 0>
  Dual(N constant) : v(ConstantOf<S>(constant)) {}
  template <typename N,
            std::enable_if_t<std::is_same_v<N, S> && kIsNumber<N>, int> = 0>
  Dual(const N& scalar) : v(scalar) {}
  // NOLINTEND(google-explicit-constructor)
  KIT_ASSIGNMENTS(Dual)

  S v = S();
  S d[kCount] = {};
};

template <typename S, int kCount>
Dual<S, kCount> Chain(const S& v, const Dual<S, kCount>& x, const S& slope) {
  Dual<S, kCount> y;
  y.v = v;
  for (int i = 0; i < kCount; ++i) y.d[i] = slope * x.d[i];
  return y;
}
template <typename S, int kCount>
Dual<S, kCount> Chain(const S& v, const Dual<S, kCount>& a, const S& slope_a,
                      const Dual<S, kCount>& b, const S& slope_b) {
  Dual<S, kCount> y;
  y.v = v;
  for (int i = 0; i < kCount; ++i) {
    y.d[i] = slope_a * a.d[i] + slope_b * b.d[i];
  }
  return y;
}

template <typename S, int kCount>
struct HolderOf<Dual<S, kCount>> {
  using type = Dual<S, kCount>;
};
template <typename S, int kCount>
Dual<S, kCount> max(const Dual<S, kCount>& x, const Dual<S, kCount>& y) {
  return MaxOf(x, y);
}
template <typename S, int kCount>
Dual<S, kCount> min(const Dual<S, kCount>& x, const Dual<S, kCount>& y) {
  return MinOf(x, y);
}

}  // namespace kit

namespace std {
using kit::max;  // those above, too
using kit::min;
template <typename S, int kCount>
struct numeric_limits<kit::Dual<S, kCount>> : numeric_limits<kit::Plain<S>> {};
}  // namespace std

#endif  // XLA_FFI_INLINE_DUAL_H_
