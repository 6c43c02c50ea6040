// Small matrices in the lanes of vectors.
//
// Compiled once per instruction set, as Highway's foreach_target.h does.

#if defined(ACCELERATE_KERNELS_LINALG_LANES_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef ACCELERATE_KERNELS_LINALG_LANES_INL_H_
#undef ACCELERATE_KERNELS_LINALG_LANES_INL_H_
#else
#define ACCELERATE_KERNELS_LINALG_LANES_INL_H_
#endif

#include <algorithm>
#include <cstdint>

#include "accelerate/kernels/linalg/linalg.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace xla_ffi_accelerate::linalg {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// A 4 x 4 block of f32, or a 2 x 2 block of f64, in which from[r * step + c]
// becomes to[c * to_step + r].
HWY_INLINE void TransposeBlock(const float* from, int64_t step, float* to,
                               int64_t to_step) {
  const hn::FixedTag<float, 4> d;
  const auto row0 = hn::LoadU(d, from), row1 = hn::LoadU(d, from + step);
  const auto row2 = hn::LoadU(d, from + 2 * step);
  const auto row3 = hn::LoadU(d, from + 3 * step);
  const auto low02 = hn::InterleaveLower(d, row0, row2);
  const auto low13 = hn::InterleaveLower(d, row1, row3);
  const auto high02 = hn::InterleaveUpper(d, row0, row2);
  const auto high13 = hn::InterleaveUpper(d, row1, row3);
  hn::StoreU(hn::InterleaveLower(d, low02, low13), d, to);
  hn::StoreU(hn::InterleaveUpper(d, low02, low13), d, to + to_step);
  hn::StoreU(hn::InterleaveLower(d, high02, high13), d, to + 2 * to_step);
  hn::StoreU(hn::InterleaveUpper(d, high02, high13), d, to + 3 * to_step);
}
HWY_INLINE void TransposeBlock(const double* from, int64_t step, double* to,
                               int64_t to_step) {
  const hn::FixedTag<double, 2> d;
  const auto row0 = hn::LoadU(d, from), row1 = hn::LoadU(d, from + step);
  hn::StoreU(hn::InterleaveLower(d, row0, row1), d, to);
  hn::StoreU(hn::InterleaveUpper(d, row0, row1), d, to + to_step);
}

// from[r * step + c], of `rows` and `columns`, becomes to[c * to_step + r]. One
// function for all that call it: inlined, it takes a fiftieth of the library.
template <typename T>
HWY_NOINLINE void Transpose(const T* from, int64_t rows, int64_t columns,
                            int64_t step, T* to, int64_t to_step) {
  constexpr int64_t kBlock = 16 / sizeof(T);
  int64_t r = 0;
  for (; r + kBlock <= rows; r += kBlock) {
    int64_t c = 0;
    for (; c + kBlock <= columns; c += kBlock) {
      TransposeBlock(from + r * step + c, step, to + c * to_step + r, to_step);
    }
    for (; c < columns; ++c) {
      for (int64_t i = r; i < r + kBlock; ++i) {
        to[c * to_step + i] = from[i * step + c];
      }
    }
  }
  for (; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) {
      to[c * to_step + r] = from[r * step + c];
    }
  }
}

// A group of matrices, one for each lane: vector e holds element e of all of
// them.
template <typename T>
class Lanes {
 public:
  static constexpr hn::ScalableTag<T> d{};
  using V = hn::Vec<hn::ScalableTag<T>>;

  static int64_t Count() { return static_cast<int64_t>(hn::Lanes(d)); }

  HWY_INLINE V Get(int64_t e) const { return hn::Load(d, data_ + e * Count()); }
  HWY_INLINE void Set(int64_t e, V v) { hn::Store(v, d, data_ + e * Count()); }

  // Element e of matrix i is x[i * size + e], and becomes element first + e of
  // lane i; lanes from `count` on are 0.
  void Read(const T* x, int64_t size, int64_t elements, int64_t count,
            int64_t first = 0) {
    T* const to = data_ + first * Count();
    if (count < Count()) std::fill_n(to, elements * Count(), T(0));
    Transpose(x, count, elements, size, to, Count());
  }
  void Write(T* x, int64_t size, int64_t elements, int64_t count,
             int64_t first = 0) const {
    const T* const from = data_ + first * Count();
    Transpose(from, elements, count, Count(), x, size);
  }

 private:
  HWY_ALIGN T
      data_[kMaxMatrix * kMaxMatrix * hn::MaxLanes(hn::ScalableTag<T>())];
};

}  // namespace HWY_NAMESPACE
}  // namespace xla_ffi_accelerate::linalg
HWY_AFTER_NAMESPACE();

#endif  // include guard, per target
