// Sums of products over rows, shared by the forward and the backward, that do
// not drift.
//
// A plain float sum of 2^24 equal terms is off by percents, and even one spread
// over 128 lanes drifts. Here a lane adds at most kDepth terms before the lanes
// are folded into a total in double (for double: a compensated one), so that
// the error does not grow with the length.
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
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "hwy/highway.h"
#include "xla_ffi/core/dtypes.h"
#include "xla_ffi/core/half.h"
#include "xla_ffi/core/simd_float-inl.h"

HWY_BEFORE_NAMESPACE();
namespace xla_ffi_kit {
namespace HWY_NAMESPACE {

// Terms a lane adds between two foldings. More is not faster (folding costs 12
// instructions against 8 * kDepth loads), and the error grows with it.
constexpr size_t kDepth = 16;

// The running total of vectors of D.
template <class D>
class Total {
 public:
  // Not a default initializer: an implicit constructor would be compiled for
  // the baseline.
  HWY_INLINE Total() : total_(hn::Zero(Dd())) {}

  HWY_INLINE void Add(hn::Vec<D> v) {
    const Dd dd;
    total_ = hn::Add(
        total_, hn::Add(hn::PromoteLowerTo(dd, v), hn::PromoteUpperTo(dd, v)));
  }
  HWY_INLINE double Get() const { return hn::ReduceSum(Dd(), total_); }

 private:
  using Dd = hn::ScalableTag<double>;
  hn::Vec<Dd> total_;
};

// For doubles: Knuth's two-sum keeps what each addition rounds away.
template <>
class Total<hn::ScalableTag<double>> {
 public:
  using D = hn::ScalableTag<double>;

  HWY_INLINE Total() : total_(hn::Zero(D())), error_(hn::Zero(D())) {}

  HWY_INLINE void Add(hn::Vec<D> v) {
    const auto sum = hn::Add(total_, v);
    const auto rounded = hn::Sub(sum, total_);
    const auto error =
        hn::Add(hn::Sub(total_, hn::Sub(sum, rounded)), hn::Sub(v, rounded));
    total_ = sum;
    error_ = hn::Add(error_, error);
  }
  HWY_INLINE double Get() const {
    const double total = hn::ReduceSum(D(), total_);
    // The error of an infinite total is NaN.
    return std::isfinite(total) ? total + hn::ReduceSum(D(), error_) : total;
  }

 private:
  hn::Vec<D> total_;
  hn::Vec<D> error_;
};

// The attributes of a lambda that is the body of a loop.
#define XLA_FFI_KIT_INLINED __attribute__((always_inline)) HWY_ATTR

template <class V>
HWY_INLINE V Folded(Pair<V> v) {
  return hn::Add(v.a, v.b);
}

// SumVectors for at most four vectors, or for eight, which attention's heads
// often have: every instruction counts.
template <class D, class AddTerm>
HWY_INLINE double SumFewVectors(D d, size_t count, const AddTerm& add) {
  const size_t n = hn::Lanes(d);
  constexpr WholePair kPair;
  const auto zero = hn::Zero(d);
  Pair<hn::Vec<D>> sum = {zero, zero};
  size_t i = 0;
  for (; i + 2 * n <= count; i += 2 * n) sum = add(kPair, i, sum);
  if (i + n <= count) {
    sum.a = add(WholeVector(), i, sum.a);
    i += n;
  }
  if (i < count) sum.b = add(PartOfVector{count - i}, i, sum.b);
  Total<D> total;
  total.Add(Folded(sum));
  return total.Get();
}

// Sum over [0, count) of a term, given as add(access, i, acc): acc plus the
// terms of the vector, or pair of vectors, at i.
template <class D, class AddTerm>
HWY_INLINE double SumVectors(D d, size_t count, const AddTerm& add) {
  const size_t n = hn::Lanes(d);
  constexpr WholePair kPair;
  const auto zero = hn::Zero(d);
  if (count <= 4 * n || count == 8 * n) return SumFewVectors(d, count, add);
  Total<D> total;
  size_t i = 0;
  while (i < count) {
    Pair<hn::Vec<D>> s0 = {zero, zero}, s1 = s0, s2 = s0, s3 = s0;
    for (size_t j = 0; j < kDepth && i + 8 * n <= count; ++j, i += 8 * n) {
      s0 = add(kPair, i, s0);
      s1 = add(kPair, i + 2 * n, s1);
      s2 = add(kPair, i + 4 * n, s2);
      s3 = add(kPair, i + 6 * n, s3);
    }
    if (i + 8 * n > count) {  // the end: less than eight vectors
      if (i + 4 * n <= count) {
        s0 = add(kPair, i, s0);
        s1 = add(kPair, i + 2 * n, s1);
        i += 4 * n;
      }
      if (i + 2 * n <= count) {
        s2 = add(kPair, i, s2);
        i += 2 * n;
      }
      if (i + n <= count) {
        s3.a = add(WholeVector(), i, s3.a);
        i += n;
      }
      if (i < count) s3.b = add(PartOfVector{count - i}, i, s3.b);
      i = count;
    }
    total.Add(Folded(Add(Add(s0, s1), Add(s2, s3))));
  }
  return total.Get();
}

// Two sums over the same vectors: add(access, i, acc0, acc1) adds to both.
template <class D, class AddTerm>
HWY_INLINE std::pair<double, double> SumVectorsTwice(D d, size_t count,
                                                     const AddTerm& add) {
  const size_t n = hn::Lanes(d);
  constexpr WholePair kPair;
  const auto zero = hn::Zero(d);
  Total<D> first, second;
  size_t i = 0;
  if (count == 4 * n || count == 8 * n) {  // as in SumFewVectors()
    Pair<hn::Vec<D>> s = {zero, zero}, t = s;
    for (; i < count; i += 2 * n) add(kPair, i, s, t);
    first.Add(Folded(s));
    second.Add(Folded(t));
  }
  while (i < count) {
    Pair<hn::Vec<D>> s0 = {zero, zero}, s1 = s0, t0 = s0, t1 = s0;
    for (size_t j = 0; j < kDepth && i + 4 * n <= count; ++j, i += 4 * n) {
      add(kPair, i, s0, t0);
      add(kPair, i + 2 * n, s1, t1);
    }
    if (i + 4 * n > count) {  // the end: less than four vectors
      if (i + 2 * n <= count) {
        add(kPair, i, s0, t0);
        i += 2 * n;
      }
      if (i + n <= count) {
        add(WholeVector(), i, s1.a, t1.a);
        i += n;
      }
      if (i < count) add(PartOfVector{count - i}, i, s1.b, t1.b);
      i = count;
    }
    first.Add(Folded(Add(s0, s1)));
    second.Add(Folded(Add(t0, t1)));
  }
  return {first.Get(), second.Get()};
}

// Whether squares of R may leave the range of the type they are computed in,
// while R's own range is not exceeded: 1e20 squared is no float. Float16 is
// widened to float, and double has nothing wider.
template <typename R>
inline constexpr bool kSquaresNeedDouble =
    std::is_same_v<R, float> || std::is_same_v<R, BFloat16>;

// Below this mean of x^2, some squares may have been flushed to zero.
inline constexpr double kTinyPower = 1e-30;

// Whether sums of products of floats must be computed again in double.
inline bool IsBeyondFloat(double power, size_t count, double eps) {
  return !std::isfinite(power) ||
         (power < kTinyPower * static_cast<double>(count) && eps < 1e-22);
}

// Sum of x * ct * weight in double, without a weight if it is null: slow, and
// rarely needed.
template <typename R>
double DotInDouble(const R* x, const R* ct, const R* weight, size_t count) {
  double sum = 0;
  for (size_t i = 0; i < count; ++i) {
    double g = static_cast<float>(ct[i]);
    if (weight != nullptr) g *= static_cast<float>(weight[i]);
    sum += static_cast<float>(x[i]) * g;
  }
  return sum;
}

// The weight of a row. Most weights are for all rows, and a division takes as
// long as a row of 64 elements.
template <class Args>
HWY_INLINE auto WeightOf(const Args& args, int64_t row) {
  const int64_t index =
      row < args.rows_per_weight ? 0 : row / args.rows_per_weight;
  return args.weight + index * args.n;
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
