// argmax of lines so short that all of a line's comparisons fit into 64 bits.
//
// A call for each line, or a branch that depends on its elements, would take
// longer than the line.
//
// Compiled once per instruction set, as Highway's foreach_target.h does.

#if defined(ACCELERATE_KERNELS_ARGMAX_SHORT_LINES_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef ACCELERATE_KERNELS_ARGMAX_SHORT_LINES_INL_H_
#undef ACCELERATE_KERNELS_ARGMAX_SHORT_LINES_INL_H_
#else
#define ACCELERATE_KERNELS_ARGMAX_SHORT_LINES_INL_H_
#endif

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace xla_ffi_accelerate::argmax {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

inline constexpr int64_t kMinShortLine = 16, kMaxShortLine = 64;

// Bit i is lane i of `mask`.
template <class D>
HWY_INLINE uint64_t BitsOf(D d, hn::Mask<D> mask) {
  uint8_t bytes[8] = {};
  hn::StoreMaskBits(d, mask, bytes);
  uint64_t bits = 0;
  std::memcpy(&bits, bytes, (hn::MaxLanes(D()) + 7) / 8);
  return bits;
}

// The index in x[0, n), n at least a vector of D, of the first that wins.
template <bool kMin, class D, class Lanes>
HWY_INLINE int64_t ArgOfShortLine(D d, const Lanes& lanes,
                                  const typename Lanes::Element* x, int64_t n) {
  constexpr auto kStep = static_cast<int64_t>(hn::MaxLanes(D()));
  auto best = lanes.Load(d, x + n - kStep);
  for (int64_t i = 0; i + kStep < n; i += kStep) {
    const auto v = lanes.Load(d, x + i);
    best = kMin ? hn::Min(best, v) : hn::Max(best, v);
  }
  const auto wanted = kMin ? hn::MinOfLanes(d, best) : hn::MaxOfLanes(d, best);
  uint64_t is_wanted = 0, is_nan = 0;
  const auto note = [&](int64_t i) HWY_ATTR {
    const auto v = lanes.Load(d, x + i);
    is_wanted |= BitsOf(d, hn::Eq(v, wanted)) << i;
    if constexpr (Lanes::kHasNan) is_nan |= BitsOf(d, hn::IsNaN(v)) << i;
  };
  for (int64_t i = 0; i + kStep < n; i += kStep) note(i);
  note(n - kStep);  // overlaps: the same bits once more
  return static_cast<int64_t>(
      hwy::Num0BitsBelowLS1Bit_Nonzero64(is_nan != 0 ? is_nan : is_wanted));
}

// Handles `count` lines, one after the other. The vectors have at most kLanes
// lanes, or more if the target has more and a line fills them.
template <bool kMin, size_t kLanes = kMinShortLine, class Lanes>
void ArgOfShortLines(const Lanes& lanes, const typename Lanes::Element* x,
                     int64_t n, int64_t count, int32_t* args) {
  using T = typename Lanes::Lane;
  constexpr size_t kNext = 2 * kLanes;
  if constexpr (kNext <= hn::MaxLanes(hn::ScalableTag<T>())) {
    if (n >= static_cast<int64_t>(kNext)) {
      return ArgOfShortLines<kMin, kNext>(lanes, x, n, count, args);
    }
  }
  const hn::CappedTag<T, kLanes> d;
  for (int64_t i = 0; i < count; ++i) {
    args[i] =
        static_cast<int32_t>(ArgOfShortLine<kMin>(d, lanes, x + i * n, n));
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace xla_ffi_accelerate::argmax
HWY_AFTER_NAMESPACE();

#endif  // include guard, per target
