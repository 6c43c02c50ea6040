#include "xla_ffi/ops/sort/vector_split.h"

#include <cstdint>

#include "xla_ffi/core/simd_targets.h"
#include "xla_ffi/ops/sort/vector_sort.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "xla_ffi/ops/sort/vector_split.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// Must come after foreach_target.h.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace xla_ffi_kit {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <typename K>
HWY_INLINE int64_t CountLoop(const K* keys, int64_t n, K bound) {
  int64_t count = 0;
  for (int64_t i = 0; i < n; ++i) count += keys[i] < bound;
  return count;
}

// One key is written to both sides and counted on one, without a branch that
// is mispredicted half the time.
template <typename K>
HWY_INLINE int64_t SplitLoop(const K* keys, int64_t begin, int64_t n, K bound,
                             int64_t lows, K* low, K* high) {
  for (int64_t i = begin; i < n; ++i) {
    low[lows] = keys[i];
    high[i - lows] = keys[i];
    lows += keys[i] < bound;
  }
  return lows;
}

// The same for a vector of keys: those of a side are moved together, and the
// whole vector is stored.
template <typename K>
HWY_INLINE int64_t SplitVectors(const K* keys, int64_t n, K bound, K* low,
                                K* high) {
  const hn::ScalableTag<K> d;
  static_assert(hn::MaxLanes(d) <= kSplitSlack);
  const auto step = static_cast<int64_t>(hn::Lanes(d));
  const auto limit = hn::Set(d, bound);
  int64_t lows = 0, i = 0;
  for (; i + step <= n; i += step) {
    const auto v = hn::LoadU(d, keys + i);
    const auto is_low = hn::Lt(v, limit);
    hn::StoreU(hn::Compress(v, is_low), d, low + lows);
    hn::StoreU(hn::CompressNot(v, is_low), d, high + (i - lows));
    lows += static_cast<int64_t>(hn::CountTrue(d, is_low));
  }
  return SplitLoop(keys, i, n, bound, lows, low, high);
}

int64_t CountU32(const uint32_t* keys, int64_t n, uint32_t bound) {
  return CountLoop(keys, n, bound);
}
int64_t CountU64(const uint64_t* keys, int64_t n, uint64_t bound) {
  return CountLoop(keys, n, bound);
}
int64_t CountU128(const Pair64* keys, int64_t n, Pair64 bound) {
  return CountLoop(keys, n, bound);
}

int64_t SplitU32(const uint32_t* keys, int64_t n, uint32_t bound, uint32_t* low,
                 uint32_t* high) {
  return SplitVectors(keys, n, bound, low, high);
}
int64_t SplitU64(const uint64_t* keys, int64_t n, uint64_t bound, uint64_t* low,
                 uint64_t* high) {
  return SplitVectors(keys, n, bound, low, high);
}
int64_t SplitU128(const Pair64* keys, int64_t n, Pair64 bound, Pair64* low,
                  Pair64* high) {
  return SplitLoop(keys, 0, n, bound, 0, low, high);
}

}  // namespace HWY_NAMESPACE
}  // namespace xla_ffi_kit
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace xla_ffi_kit {
namespace {

HWY_EXPORT(CountU32);
HWY_EXPORT(CountU64);
HWY_EXPORT(CountU128);
HWY_EXPORT(SplitU32);
HWY_EXPORT(SplitU64);
HWY_EXPORT(SplitU128);

}  // namespace

int64_t CountBelow(const uint32_t* keys, int64_t n, uint32_t bound) {
  return HWY_DYNAMIC_DISPATCH(CountU32)(keys, n, bound);
}
int64_t CountBelow(const uint64_t* keys, int64_t n, uint64_t bound) {
  return HWY_DYNAMIC_DISPATCH(CountU64)(keys, n, bound);
}
int64_t CountBelow(const Pair64* keys, int64_t n, Pair64 bound) {
  return HWY_DYNAMIC_DISPATCH(CountU128)(keys, n, bound);
}

int64_t SplitKeys(const uint32_t* keys, int64_t n, uint32_t bound,
                  uint32_t* low, uint32_t* high) {
  return HWY_DYNAMIC_DISPATCH(SplitU32)(keys, n, bound, low, high);
}
int64_t SplitKeys(const uint64_t* keys, int64_t n, uint64_t bound,
                  uint64_t* low, uint64_t* high) {
  return HWY_DYNAMIC_DISPATCH(SplitU64)(keys, n, bound, low, high);
}
int64_t SplitKeys(const Pair64* keys, int64_t n, Pair64 bound, Pair64* low,
                  Pair64* high) {
  return HWY_DYNAMIC_DISPATCH(SplitU128)(keys, n, bound, low, high);
}

}  // namespace xla_ffi_kit
#endif  // HWY_ONCE
