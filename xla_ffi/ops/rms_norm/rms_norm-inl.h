// Sums of products over rows, shared by the forward and the backward.
//
// Compiled once per instruction set, as Highway's foreach_target.h does.

#if defined(XLA_FFI_OPS_RMS_NORM_RMS_NORM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef XLA_FFI_OPS_RMS_NORM_RMS_NORM_INL_H_
#undef XLA_FFI_OPS_RMS_NORM_RMS_NORM_INL_H_
#else
#define XLA_FFI_OPS_RMS_NORM_RMS_NORM_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "hwy/highway.h"
#include "xla_ffi/core/accumulation_type.h"
#include "xla_ffi/core/components.h"
#include "xla_ffi/core/half.h"
#include "xla_ffi/core/simd_float-inl.h"
#include "xla_ffi/core/simd_sum-inl.h"

HWY_BEFORE_NAMESPACE();
namespace xla_ffi_kit {
namespace HWY_NAMESPACE {

// Whether squares of R may leave the range of the type they are computed in,
// while R's own range is not exceeded: 1e20 squared is no float. Float16 is
// widened to float, and double has nothing wider.
template <typename R>
inline constexpr bool kSquaresNeedDouble =
    std::is_same_v<R, float> || std::is_same_v<R, BFloat16>;

// Below this mean of |x|^2, some squares may have been flushed to zero.
inline constexpr double kTinyPower = 1e-30;

// Whether sums of products of floats must be computed again in double.
inline bool IsBeyondFloat(double power, size_t count, double eps) {
  return !std::isfinite(power) ||
         (power < kTinyPower * static_cast<double>(count) && eps < 1e-22);
}

// Sum of x[i] * x[i] in double: slow, and rarely needed.
template <typename R>
double PowerInDouble(const R* x, size_t count) {
  double sum = 0;
  for (size_t i = 0; i < count; ++i) {
    const double value = static_cast<float>(x[i]);
    sum += value * value;
  }
  return sum;
}

// Not the product of std::complex, which would bring in clang's run-time
// library, memcpy and all.
inline double Product(double a, double b) { return a * b; }
inline std::complex<double> Product(std::complex<double> a,
                                    std::complex<double> b) {
  return {a.real() * b.real() - a.imag() * b.imag(),
          a.real() * b.imag() + a.imag() * b.real()};
}

// Sum of Re(x * g) of a row of the backward in double: likewise.
template <class Row>
double DotInDouble(const Row& row) {
  const auto load = [](const typename Row::R* p, size_t i) {
    const double re = static_cast<float>(p[i]);
    if constexpr (Row::kComplex) {
      return std::complex<double>(re, static_cast<float>(p[i + 1]));
    } else {
      return re;
    }
  };
  double sum = 0;
  for (size_t i = 0; i < row.count; i += Row::kComplex ? 2 : 1) {
    auto g = load(row.ct, i);
    if (row.weight != nullptr) g = Product(g, load(row.weight, i));
    sum += std::real(Product(load(row.x, i), g));
  }
  return sum;
}

template <typename R>
struct AddSquare {
  const R* x;

  template <class Access, class V>
  HWY_INLINE V operator()(Access access, size_t i, V acc) const {
    const auto v = access.Load(WideTag<R>(), x + i);
    return MulAdd(v, v, acc);
  }
};

// The loops over a row of any length ...
struct AnyLength {
  template <class D, class AddTerm>
  HWY_INLINE double Sum(D d, size_t count, const AddTerm& add) const {
    return SumVectors(d, count, add);
  }
  template <class D, class AddTerm>
  HWY_INLINE SumPair SumTwice(D d, size_t count, const AddTerm& add) const {
    return SumVectorsTwice(d, count, add);
  }
  template <class D, class Body>
  HWY_INLINE void ForEach(D d, size_t count, const Body& body) const {
    ForEachVector(d, count, body);
  }
};

// ... and over one of kPairs pairs of vectors. Of short rows the bookkeeping of
// the general loops is the greater part.
template <size_t kPairs>
struct Pairs {
  template <class D, class AddTerm>
  HWY_INLINE double Sum(D d, size_t, const AddTerm& add) const {
    const auto zero = hn::Zero(d);
    Pair<hn::Vec<D>> sum = {zero, zero};
    for (size_t k = 0; k < kPairs; ++k) {
      sum = add(WholePair(), 2 * k * hn::Lanes(d), sum);
    }
    Total<D> total;
    total.Add(Folded(sum));
    return total.Get();
  }
  template <class D, class AddTerm>
  HWY_INLINE SumPair SumTwice(D d, size_t, const AddTerm& add) const {
    const auto zero = hn::Zero(d);
    Pair<hn::Vec<D>> first = {zero, zero}, second = first;
    for (size_t k = 0; k < kPairs; ++k) {
      add(WholePair(), 2 * k * hn::Lanes(d), first, second);
    }
    Total<D> totals[2];
    totals[0].Add(Folded(first));
    totals[1].Add(Folded(second));
    return {totals[0].Get(), totals[1].Get()};
  }
  template <class D, class Body>
  HWY_INLINE void ForEach(D d, size_t, const Body& body) const {
    for (size_t k = 0; k < kPairs; ++k) {
      body(WholePair(), 2 * k * hn::Lanes(d));
    }
  }
};

// Calls fn with the loops over rows of n elements of T. Short ones are what
// attention normalizes, rows of 64 and 128: of others, and of complex numbers,
// there are too few to be compiled for.
template <typename T, class Fn>
HWY_INLINE void WithLoops(int64_t n, const Fn& fn) {
  if constexpr (kComponents<T> == 1) {
    const size_t step = 2 * hn::Lanes(WideTag<T>());
    if (static_cast<size_t>(n) == 2 * step) return fn(Pairs<2>());
    if (static_cast<size_t>(n) == 4 * step) return fn(Pairs<4>());
  }
  fn(AnyLength());
}

// Rows are worked on in groups, one phase after the other: the latency of a
// row's root and quotient, and of folding its sums, then hides behind the other
// rows. A group stays in the first-level cache; long rows go one by one.
constexpr int64_t kMaxGroup = 16;

inline int64_t GroupSize(int64_t row_bytes) {
  return std::clamp<int64_t>(8192 / row_bytes, 1, kMaxGroup);
}

// The scale of each of `count` rows from its sum of squares.
template <typename A>
HWY_INLINE void ScalesOf(const double* powers, int64_t count, int64_t n,
                         double eps, A* scales) {
  const hn::CappedTag<double, kMaxGroup> d;
  const auto inverse_length = hn::Set(d, 1 / static_cast<double>(n));
  double results[kMaxGroup];
  for (int64_t i = 0; i < kMaxGroup; i += hn::Lanes(d)) {
    if (i >= count) break;
    const auto mean =
        hn::MulAdd(hn::LoadU(d, powers + i), inverse_length, hn::Set(d, eps));
    const auto root = hn::Sqrt(mean);
    hn::StoreU(hn::Div(hn::Set(d, 1.0), root), d, results + i);
  }
  for (int64_t i = 0; i < count; ++i) scales[i] = static_cast<A>(results[i]);
}

}  // namespace HWY_NAMESPACE
}  // namespace xla_ffi_kit
HWY_AFTER_NAMESPACE();

#endif  // XLA_FFI_OPS_RMS_NORM_RMS_NORM_INL_H_
