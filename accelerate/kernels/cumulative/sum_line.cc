#include "accelerate/kernels/cumulative/sum_line.h"

#include <cstddef>
#include <cstdint>

#include "xla_ffi/core/simd_targets.h"

// Compiles the rest of this file once per instruction set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "accelerate/kernels/cumulative/sum_line.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// Must come after foreach_target.h.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace xla_ffi_accelerate::cumulative {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Each lane, and the lanes before it (with kReverse, after it): sums of two,
// of four of them, and so on.
template <bool kReverse, size_t kShift = 1, class D>
HWY_INLINE hn::Vec<D> SumOfLanes(D d, hn::Vec<D> v) {
  if constexpr (kShift < hn::MaxLanes(D())) {
    const auto shifted = kReverse ? hn::SlideDownLanes(d, v, kShift)
                                  : hn::SlideUpLanes(d, v, kShift);
    return SumOfLanes<kReverse, 2 * kShift>(d, hn::Add(v, shifted));
  } else {
    return v;
  }
}

template <bool kReverse, typename U>
void Sum(const U* in, int64_t n, U before, U* out) {
  const hn::ScalableTag<U> d;
  constexpr auto kLanes = static_cast<int64_t>(hn::MaxLanes(d));
  auto total = hn::Set(d, before);
  int64_t done = 0;
  for (; done + kLanes <= n; done += kLanes) {
    const int64_t i = kReverse ? n - done - kLanes : done;
    const auto sums = SumOfLanes<kReverse>(d, hn::LoadU(d, in + i));
    hn::StoreU(hn::Add(total, sums), d, out + i);
    // Not taken from what was stored: vectors then depend on each other by no
    // more than this addition.
    constexpr int kLast = kReverse ? 0 : kLanes - 1;
    total = hn::Add(total, hn::BroadcastLane<kLast>(sums));
  }
  U sum = hn::GetLane(total);
  for (; done < n; ++done) {
    const int64_t i = kReverse ? n - done - 1 : done;
    sum = static_cast<U>(sum + in[i]);
    out[i] = sum;
  }
}

template <typename U>
void SumEither(const U* in, int64_t n, bool reverse, U before, U* out) {
  reverse ? Sum<true>(in, n, before, out) : Sum<false>(in, n, before, out);
}

}  // namespace HWY_NAMESPACE
}  // namespace xla_ffi_accelerate::cumulative
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace xla_ffi_accelerate::cumulative {

template <typename U>
void SumLine(const U* in, int64_t n, bool reverse, U before, U* out) {
  HWY_EXPORT_T(Table, SumEither<U>);
  HWY_DYNAMIC_DISPATCH_T(Table)(in, n, reverse, before, out);
}

template void SumLine(const uint8_t*, int64_t, bool, uint8_t, uint8_t*);
template void SumLine(const uint16_t*, int64_t, bool, uint16_t, uint16_t*);
template void SumLine(const uint32_t*, int64_t, bool, uint32_t, uint32_t*);
template void SumLine(const uint64_t*, int64_t, bool, uint64_t, uint64_t*);

}  // namespace xla_ffi_accelerate::cumulative

#endif  // HWY_ONCE
