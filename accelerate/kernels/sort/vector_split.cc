#include "accelerate/kernels/sort/vector_split.h"

#include <cstdint>
#include <type_traits>

#include "accelerate/core/vector_sort.h"
#include "xla_ffi/core/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "accelerate/kernels/sort/vector_split.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// Must come after foreach_target.h.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace xla_ffi_accelerate::sort {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <typename K>
int64_t Count(const K* keys, int64_t n, K bound) {
  int64_t count = 0;
  for (int64_t i = 0; i < n; ++i) count += keys[i] < bound;
  return count;
}

// The keys of a side are moved together, and the whole vector is stored.
// Returns how many keys were split; those after them make no whole vector.
template <typename K>
HWY_INLINE int64_t SplitVectors(const K* keys, int64_t n, K bound, K* low,
                                K* high, int64_t* lows) {
  const hn::ScalableTag<K> d;
  static_assert(hn::MaxLanes(d) <= kSplitSlack);
  const auto step = static_cast<int64_t>(hn::Lanes(d));
  const auto limit = hn::Set(d, bound);
  int64_t i = 0;
  for (; i + step <= n; i += step) {
    const auto v = hn::LoadU(d, keys + i);
    const auto is_low = hn::Lt(v, limit);
    hn::StoreU(hn::Compress(v, is_low), d, low + *lows);
    hn::StoreU(hn::CompressNot(v, is_low), d, high + (i - *lows));
    *lows += static_cast<int64_t>(hn::CountTrue(d, is_low));
  }
  return i;
}

template <typename K>
int64_t Split(const K* keys, int64_t n, K bound, K* low, K* high) {
  int64_t lows = 0, i = 0;
  if constexpr (std::is_integral_v<K>) {
    i = SplitVectors(keys, n, bound, low, high, &lows);
  }
  // One key is written to both sides and counted on one, without a branch that
  // is mispredicted half the time.
  for (; i < n; ++i) {
    low[lows] = keys[i];
    high[i - lows] = keys[i];
    lows += keys[i] < bound;
  }
  return lows;
}

}  // namespace HWY_NAMESPACE
}  // namespace xla_ffi_accelerate::sort
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace xla_ffi_accelerate::sort {

template <typename Packed>
int64_t CountBelow(const Packed* keys, int64_t n, Packed bound) {
  HWY_EXPORT_T(CountTable, Count<Packed>);
  return HWY_DYNAMIC_DISPATCH_T(CountTable)(keys, n, bound);
}

template <typename Packed>
int64_t SplitKeys(const Packed* keys, int64_t n, Packed bound, Packed* low,
                  Packed* high) {
  HWY_EXPORT_T(SplitTable, Split<Packed>);
  return HWY_DYNAMIC_DISPATCH_T(SplitTable)(keys, n, bound, low, high);
}

#define XLA_FFI_KIT_INSTANTIATE(Packed)                        \
  template int64_t CountBelow(const Packed*, int64_t, Packed); \
  template int64_t SplitKeys(const Packed*, int64_t, Packed, Packed*, Packed*)
XLA_FFI_KIT_INSTANTIATE(uint32_t);
XLA_FFI_KIT_INSTANTIATE(uint64_t);
XLA_FFI_KIT_INSTANTIATE(Pair64);
#undef XLA_FFI_KIT_INSTANTIATE

}  // namespace xla_ffi_accelerate::sort
#endif  // HWY_ONCE
