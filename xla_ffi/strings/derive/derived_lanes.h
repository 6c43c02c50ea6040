// Numbers that know their derivatives, in lanes: a tape of several rows, whose
// statements are the same.
//
// What cannot be the same for every row does not compile, as in lanes.h.

#ifndef XLA_FFI_STRINGS_DERIVE_DERIVED_LANES_H_
#define XLA_FFI_STRINGS_DERIVE_DERIVED_LANES_H_

#include <cstdint>
#include <vector>

#include "xla_ffi/strings/derive/numbers.h"
#include "xla_ffi/strings/lanes.h"

namespace kit {

// The headers below look at it.
template <typename F, int kN>
inline constexpr bool kIsInLanes<Lanes<F, kN>> = true;
template <typename F, int kN, typename P>
struct WithPlain<Lanes<F, kN>, P> {
  static_assert(std::is_same_v<F, P>,
                "in lanes a double does not stand beside a float: write 0.5f, "
                "or A(0.5)");
  using type = Lanes<F, kN>;
};

}  // namespace kit

#include "xla_ffi/strings/derive/differentiate.h"
#include "xla_ffi/strings/derive/dual.h"
#include "xla_ffi/strings/derive/tape.h"
#include "xla_ffi/strings/derive/var.h"
#include "xla_ffi/strings/lane_rows.h"
#include "xla_ffi/strings/lanes_functions.h"

namespace kit {

template <typename F, int kN>
inline constexpr int kRowsOf<Lanes<F, kN>> = kN;
template <typename S, int kCount>
inline constexpr int kRowsOf<Dual<S, kCount>> = kRowsOf<S>;
template <typename S, int kCount>
inline constexpr bool kHasChoices<Dual<S, kCount>> = kHasChoices<S>;
template <typename F>
struct SlopeOf<Lanes<F, 1>> {
  using type = F;
  KIT_INLINE static F From(const Lanes<F, 1>& slope) { return slope.at(0); }
};

// A row on whose way a slope is 0 takes nothing from there, where the slope
// that follows may be infinite: as where it runs alone. One in which a number
// was not chosen takes nothing, even where the slope from there is infinite.
template <typename F, int kN>
KIT_INLINE void ClearWhereZero(const Lanes<F, kN>& x, Lanes<F, kN>& y) {
  y = Select(x == F(0), Lanes<F, kN>(0), y);
}
template <typename S, int kCount>
void ClearWhereZero(const Dual<S, kCount>& x, Dual<S, kCount>& y) {
  ClearWhereZero(x.v, y.v);
  for (int i = 0; i < kCount; ++i) ClearWhereZero(x.v, y.d[i]);
}
// The choice of x where `of_x` is 1, and of y where it is 0.
template <typename S>
KIT_INLINE Var<S> Choice(const S& v, const Var<S>& x, const Var<S>& y,
                         const S& of_x) {
  Expression<S, 2> z;
  z.v = v;
  z.slopes[0] = of_x, z.slopes[1] = S(1) - of_x;
  z.ids[0] = x.id != 0 ? x.id | kChoice : 0;
  z.ids[1] = y.id != 0 ? y.id | kChoice : 0;
  return z;
}

// Of two numbers the one or the other, with its slopes.
template <typename F, int kN, typename S, int kCount>
Dual<S, kCount> where(const Mask<F, kN>& condition, const Dual<S, kCount>& x,
                      const Dual<S, kCount>& y) {
  Dual<S, kCount> z;
  z.v = where(condition, x.v, y.v);
  for (int i = 0; i < kCount; ++i) z.d[i] = where(condition, x.d[i], y.d[i]);
  return z;
}
template <typename F, int kN, typename S>
Var<S> where(const Mask<F, kN>& condition, const Var<S>& x, const Var<S>& y) {
  return Choice(S(where(condition, x.v, y.v)), x, y,
                S(where(condition, S(1), S(0))));
}
template <typename H, typename F, int kN, typename X, typename Y>
H OneOf(const Mask<F, kN>& is_first, const X& x, const Y& y) {
  return where(is_first, H(x), H(y));
}
template <typename F, int kN, typename X, typename Y, IfNumbers<X, Y> = 0>
Holder<X, Y> where(const Mask<F, kN>& condition, const X& x, const Y& y) {
  return OneOf<Holder<X, Y>>(condition, x, y);
}

template <typename F, int kN, typename S, int kCount>
Dual<S, kCount> ChosenOf(const Mask<F, kN>& are_equal,
                         const Mask<F, kN>& is_first, const Dual<S, kCount>& x,
                         const Dual<S, kCount>& y) {
  return where(are_equal, HalfOfEach<Dual<S, kCount>>(x.v, x, y),
               where(is_first, x, y));
}
template <typename F, int kN, typename S>
Var<S> ChosenOf(const Mask<F, kN>& are_equal, const Mask<F, kN>& is_first,
                const Var<S>& x, const Var<S>& y) {
  return Choice(S(where(is_first, x.v, y.v)), x, y,
                S(where(are_equal, F(0.5), where(is_first, F(1), F(0)))));
}
template <typename H, typename F, int kN, typename X, typename Y>
H Chosen(const Mask<F, kN>& are_equal, const Mask<F, kN>& is_first, const X& x,
         const Y& y) {
  return ChosenOf(are_equal, is_first, H(x), H(y));
}

// The rows of a group in lanes.
template <typename L, uint64_t kShared, uint64_t kSums, typename T,
          typename Function, int kIns, int kOuts>
struct GroupOfRows {
  using S = Accumulate<T>;
  using Scalar = L;
  const Function& f;
  const ArraysOfDerivative<kShared, kSums, T, kIns, kOuts>& arrays;

  // The operands of a group, and the results.
  struct Kept {
    explicit Kept(const GroupOfRows& group) {
      for (int k = 0; k < kIns; ++k) {
        in[k].resize(group.arrays.SizeOfIn(k));
        if (!Has(kShared, k)) continue;
        const T* const data = group.arrays.in[k].data();
        for (size_t j = 0; j < in[k].size(); ++j) in[k][j] = L(S(data[j]));
      }
      for (int k = 0; k < kOuts; ++k) out[k].resize(group.arrays.SizeOfOut(k));
    }
    std::vector<L> in[kIns], out[kOuts];
  };

  void Run(int64_t group, Kept& kept, S* sum) const {
    const int64_t first = group * L::kCount, left = arrays.rows - first;
    const int count = static_cast<int>(left < L::kCount ? left : L::kCount);
    Row<const L> x[kIns];
    Row<L> y[kOuts];
    for (int k = 0; k < kIns; ++k) {
      const int64_t size = kept.in[k].size();
      if (!Has(kShared, k)) {
        lanes_internal::Gather(arrays.in[k].data() + first * size, size, count,
                               size, kept.in[k].data());
      }
      x[k] = {kept.in[k].data(), size};
    }
    for (int k = 0; k < kOuts; ++k) {
      y[k] = Row<L>(kept.out[k].data(), kept.out[k].size());
    }
    f(static_cast<const Row<const L>*>(x), static_cast<const Row<L>*>(y));
    for (int k = 0; k < kOuts; ++k) {
      const int64_t size = y[k].size();
      if (!Has(kSums, k)) {
        lanes_internal::Scatter(kept.out[k].data(), size,
                                arrays.out[k].data() + first * size, size,
                                count);
        continue;
      }
      for (int64_t j = 0; j < size; ++j, ++sum) {
        for (int lane = 0; lane < count; ++lane) *sum += y[k][j].at(lane);
      }
    }
  }
};

// As DeriveRows(), for a derivative that is the same for all rows.
template <uint64_t kShared, uint64_t kSums, typename T, typename F, int kIns,
          int kOuts>
void DeriveRowsInLanes(const F& f, const Threads& threads, int64_t rows,
                       const Row<const T> (&in)[kIns],
                       const Row<T> (&out)[kOuts]) {
  const ArraysOfDerivative<kShared, kSums, T, kIns, kOuts> arrays{rows, in,
                                                                  out};
  ForLanesOf<Accumulate<T>>(rows, [&](auto number) {
    using L = decltype(number);
    using Unit = GroupOfRows<L, kShared, kSums, T, F, kIns, kOuts>;
    RowsOfDerivative<kSums, Unit, T, kOuts>{GroupsOf<L>(rows), out}.Run(
        threads, rows > 0 ? L::kCount * arrays.BytesOfRow() : 0,
        Unit{f, arrays});
  });
}

}  // namespace kit

#endif  // XLA_FFI_STRINGS_DERIVE_DERIVED_LANES_H_
