// Forward mode: a number with its slopes towards some inputs.

#ifndef XLA_FFI_STRINGS_DERIVE_DUAL_H_
#define XLA_FFI_STRINGS_DERIVE_DUAL_H_

#include <limits>
#include <type_traits>

#include "xla_ffi/strings/derive/numbers.h"

namespace kit {

template <typename S, int kCount>
struct Dual {
  using KitScalar = S;

  Dual() = default;
  Dual(const Dual&) = default;
  Dual& operator=(const Dual&) = default;
  // NOLINTBEGIN(google-explicit-constructor): constants convert implicitly
  template <typename N, IfConstant<N> = 0>
  Dual(N constant) : v(ConstantOf<S>(constant)) {}
  template <typename N,
            std::enable_if_t<std::is_same_v<N, S> && kIsNumber<N>, int> = 0>
  Dual(const N& scalar) : v(scalar) {}
  // As a float of a double. The other way is explicit: `?:` knows one only.
  template <typename W, IfOther<W, S> = 0, IfRounds<W> = 0>
  Dual(const Dual<W, kCount>& x) : v(ScalarAs<S>(x.v)) {
    for (int i = 0; i < kCount; ++i) d[i] = ScalarAs<S>(x.d[i]);
  }
  // NOLINTEND(google-explicit-constructor)
  template <typename W, IfOther<W, S> = 0, IfWidens<W> = 0>
  explicit Dual(const Dual<W, kCount>& x) : v(ScalarAs<S>(x.v)) {
    for (int i = 0; i < kCount; ++i) d[i] = ScalarAs<S>(x.d[i]);
  }
  KIT_NUMBER_CLASS(Dual)

  S v = S();
  S d[kCount] = {};
};

template <Slopes kSlopes, typename S, typename Of, int kCount>
Dual<S, kCount> Chain(const S& v, const Dual<Of, kCount>& x, const S& slope) {
  Dual<S, kCount> y;
  y.v = v;
  for (int i = 0; i < kCount; ++i) {
    y.d[i] = TimesSlope<kSlopes, S>(slope, ScalarAs<S>(x.d[i]));
  }
  return y;
}
template <Slopes kSlopes, typename S, typename OfA, typename OfB, int kCount>
Dual<S, kCount> Chain(const S& v, const Dual<OfA, kCount>& a, const S& slope_a,
                      const Dual<OfB, kCount>& b, const S& slope_b) {
  Dual<S, kCount> y;
  y.v = v;
  for (int i = 0; i < kCount; ++i) {
    y.d[i] = TimesSlope<kSlopes, S>(slope_a, ScalarAs<S>(a.d[i])) +
             TimesSlope<kSlopes, S>(slope_b, ScalarAs<S>(b.d[i]));
  }
  return y;
}

template <typename Of, int kCount, typename X, typename Y, typename S>
struct HolderFor<Dual<Of, kCount>, X, Y, S> {
  using type = Dual<S, kCount>;
};

}  // namespace kit

namespace std {
template <typename S, int kCount>
struct numeric_limits<kit::Dual<S, kCount>> : numeric_limits<kit::Plain<S>> {};
}  // namespace std

#endif  // XLA_FFI_STRINGS_DERIVE_DUAL_H_
