#include "accelerate/kernels/cumlogsumexp/cumlogsumexp.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "xla_ffi/core/handler.h"
#include "xla_ffi/core/lines.h"
#include "xla_ffi/core/simd_targets.h"

// Compiles the rest of this file once per instruction set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "accelerate/kernels/cumlogsumexp/cumlogsumexp.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// Must come after foreach_target.h.
#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace xla_ffi_accelerate::cumlogsumexp {
namespace HWY_NAMESPACE {

namespace hn = ::hwy::HWY_NAMESPACE;

// Block size: its elements share one maximum, and stay in registers' reach.
constexpr int64_t kBlock = 128;

// How far below a block's maximum its sums may begin. Then no exponential that
// counts underflows, and none overflows.
constexpr double kMaxRange = 60;

// exp(in[0]) + ... + exp(in[k]) = sum * exp(max) after element k.
struct Sum {
  double max = -std::numeric_limits<double>::infinity();
  double sum = 0;

  // Adds any x, including infinities and NaNs.
  void Add(double x) {
    if (x <= max) {
      sum += x == max ? 1 : std::exp(x - max);
    } else {
      sum = x == x ? sum * std::exp(max - x) + 1 : x;
      max = x;
    }
  }
  double Log() const { return max + std::log(sum); }
};

// Elements x[0, n), n <= kBlock, of one range: `x` becomes the results.
template <typename T>
HWY_INLINE void AddBlock(int64_t n, double max, Sum* total, T* x) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  total->sum *= std::exp(total->max - max);
  total->max = max;
  const auto shift = hn::Set(d, static_cast<T>(max));
  for (int64_t i = 0; i < n; i += lanes) {
    hn::Store(hn::Exp(d, hn::Sub(hn::Load(d, x + i), shift)), d, x + i);
  }
  double sum = total->sum;
  for (int64_t i = 0; i < n; ++i) {
    sum += static_cast<double>(x[i]);
    x[i] = static_cast<T>(sum);
  }
  total->sum = sum;
  for (int64_t i = 0; i < n; i += lanes) {
    hn::Store(hn::Add(hn::Log(d, hn::Load(d, x + i)), shift), d, x + i);
  }
}

// Row `row`.
template <typename T>
void ScanRow(const CumlogsumexpProblem<T>& p, int64_t row) {
  const T* const in = p.in + row * p.length;
  T* const out = p.out + row * p.length;
  HWY_ALIGN T x[kBlock] = {};
  Sum total;
  for (int64_t first = 0, n; first < p.length; first += n) {
    n = std::min(kBlock, p.length - first);
    const int64_t begin = p.reverse ? p.length - first - n : first;
    std::copy_n(in + begin, n, x);
    if (p.reverse) std::reverse(x, x + n);
    T max = x[0];
    bool is_number = total.sum == total.sum;
    for (int64_t i = 0; i < n; ++i) {
      max = std::max(max, x[i]);
      is_number &= x[i] == x[i];
    }
    const double above = std::max<double>(max, total.max);
    const double lowest = std::max<double>(x[0], total.max);
    if (is_number && above - lowest <= kMaxRange) {
      AddBlock(n, above, &total, x);
    } else {
      for (int64_t i = 0; i < n; ++i) {
        total.Add(x[i]);
        x[i] = static_cast<T>(total.Log());
      }
    }
    if (p.reverse) std::reverse(x, x + n);
    std::copy_n(x, n, out + begin);
  }
}

template <typename T>
void ScanRows(const CumlogsumexpProblem<T>& p, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) ScanRow(p, row);
}

}  // namespace HWY_NAMESPACE
}  // namespace xla_ffi_accelerate::cumlogsumexp
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace xla_ffi_accelerate::cumlogsumexp {

template <typename T>
HWY_NOINLINE void Cumlogsumexp(const CumlogsumexpProblem<T>& problem,
                               const Executor& executor) {
  if (problem.length == 0) return;
  HWY_EXPORT_T(Table, ScanRows<T>);
  const auto run = HWY_DYNAMIC_POINTER_T(Table);
  const LineWork work = {problem.rows, problem.length, /*element_ns=*/6};
  ForEachLine(
      executor, problem.rows, PlanLines(executor, work),
      [&](int64_t begin, int64_t end) noexcept { run(problem, begin, end); });
}

namespace {

namespace ffi = ::xla::ffi;

ffi::Error Run(const CumlogsumexpCall& call, const Executor& executor) {
  const BatchShape shape = SplitLastAxis(call.get<x>().dims());
  return call.Dispatch<x>([&](auto tag) {
    using T = typename decltype(tag)::type;
    const CumlogsumexpProblem<T> problem = {
        shape.rows, shape.length, call.get<reverse>(), call.get<x>().as(tag),
        call.get<y>().as(tag)};
    Cumlogsumexp(problem, executor);
    return ffi::Error();
  });
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(XlaFfiAccelerateCumlogsumexpCpu, Checked<Run>,
                              BindCall<Run>());
XLA_FFI_KIT_DEFINE_SIGNATURE(XlaFfiAccelerateCumlogsumexpCpu, CumlogsumexpCall);

}  // namespace xla_ffi_accelerate::cumlogsumexp

#endif  // HWY_ONCE
