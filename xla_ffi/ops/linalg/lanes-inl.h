// Small matrices in the lanes of vectors.
//
// Compiled once per instruction set, as Highway's foreach_target.h does.

#if defined(XLA_FFI_OPS_LINALG_LANES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef XLA_FFI_OPS_LINALG_LANES_INL_H_
#undef XLA_FFI_OPS_LINALG_LANES_INL_H_
#else
#define XLA_FFI_OPS_LINALG_LANES_INL_H_
#endif

#include <algorithm>
#include <cstdint>

#include "hwy/highway.h"
#include "xla_ffi/ops/linalg/linalg.h"

HWY_BEFORE_NAMESPACE();
namespace xla_ffi_kit {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// A loop that clang would make AVX-512's gathers and scatters of: they take up
// to 1.3 times as long as an element at a time, as gcc leaves it.
#undef XLA_FFI_KIT_ONE_BY_ONE
#if HWY_COMPILER_CLANG
#define XLA_FFI_KIT_ONE_BY_ONE HWY_PRAGMA(clang loop vectorize(disable))
#else
#define XLA_FFI_KIT_ONE_BY_ONE
#endif

// As many matrices as a vector has lanes: element e of all of them is vector e.
template <typename T>
class Lanes {
 public:
  static constexpr hn::ScalableTag<T> d{};
  using V = hn::Vec<hn::ScalableTag<T>>;

  static int64_t Count() { return static_cast<int64_t>(hn::Lanes(d)); }

  HWY_INLINE V Get(int64_t e) const { return hn::Load(d, data_ + e * Count()); }
  HWY_INLINE void Set(int64_t e, V v) { hn::Store(v, d, data_ + e * Count()); }

  // Element e of matrix i is x[i * size + at(e)]; lanes from `count` on are 0.
  template <class At>
  void Read(const T* x, int64_t size, int64_t elements, int64_t count,
            const At& at) {
    const int64_t lanes = Count();
    if (count < lanes) std::fill_n(data_, elements * lanes, T(0));
    for (int64_t i = 0; i < count; ++i) {
      XLA_FFI_KIT_ONE_BY_ONE
      for (int64_t e = 0; e < elements; ++e) {
        data_[e * lanes + i] = x[i * size + at(e)];
      }
    }
  }
  template <class At>
  void Write(T* x, int64_t size, int64_t elements, int64_t count,
             const At& at) const {
    const int64_t lanes = Count();
    for (int64_t i = 0; i < count; ++i) {
      XLA_FFI_KIT_ONE_BY_ONE
      for (int64_t e = 0; e < elements; ++e) {
        x[i * size + at(e)] = data_[e * lanes + i];
      }
    }
  }

 private:
  HWY_ALIGN T
      data_[kMaxMatrix * kMaxMatrix * hn::MaxLanes(hn::ScalableTag<T>())];
};

inline int64_t Same(int64_t e) { return e; }

}  // namespace HWY_NAMESPACE
}  // namespace xla_ffi_kit
HWY_AFTER_NAMESPACE();

#endif  // include guard, per target
