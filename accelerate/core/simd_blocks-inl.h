// Arrays of elements side by side, a vector at a time, the rest of them too.
//
// Compiled once per instruction set, as Highway's foreach_target.h does.

#if defined(ACCELERATE_CORE_SIMD_BLOCKS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ACCELERATE_CORE_SIMD_BLOCKS_INL_H_
#undef ACCELERATE_CORE_SIMD_BLOCKS_INL_H_
#else
#define ACCELERATE_CORE_SIMD_BLOCKS_INL_H_
#endif

#include <cstddef>
#include <cstdint>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace xla_ffi_accelerate {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// All lanes of a vector, or only the first `count`.
template <typename T, bool kIsWhole>
struct Block {
  hn::ScalableTag<T> d;
  size_t count;

  using V = hn::Vec<hn::ScalableTag<T>>;
  HWY_INLINE V Load(const T* x) const {
    return kIsWhole ? hn::LoadU(d, x) : hn::LoadN(d, x, count);
  }
  HWY_INLINE void Store(V v, T* x) const {
    kIsWhole ? hn::StoreU(v, d, x) : hn::StoreN(v, d, x, count);
  }
};

// Calls fn(block, first) on the blocks that `size` elements consist of.
template <typename T, class Fn>
HWY_INLINE void ForBlocks(int64_t size, const Fn& fn) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= size; i += lanes) {
    fn(Block<T, true>{d, hn::Lanes(d)}, i);
  }
  if (i < size) fn(Block<T, false>{d, static_cast<size_t>(size - i)}, i);
}

}  // namespace HWY_NAMESPACE
}  // namespace xla_ffi_accelerate
HWY_AFTER_NAMESPACE();

#endif  // include guard, per target
