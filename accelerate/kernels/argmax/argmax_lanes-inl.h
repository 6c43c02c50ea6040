// Elements of any type as lanes whose order is that of argmax.
//
// Compiled once per instruction set, as Highway's foreach_target.h does.

#if defined(ACCELERATE_KERNELS_ARGMAX_LANES_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef ACCELERATE_KERNELS_ARGMAX_LANES_INL_H_
#undef ACCELERATE_KERNELS_ARGMAX_LANES_INL_H_
#else
#define ACCELERATE_KERNELS_ARGMAX_LANES_INL_H_
#endif

#include <cstdint>
#include <type_traits>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace xla_ffi_accelerate::argmax {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Integers, f32 and f64, compared as they are.
template <typename T>
struct PlainLanes {
  using Element = T;
  using Lane = T;
  static constexpr bool kHasNan = std::is_floating_point_v<T>;

  Lane Get(T x) const { return x; }
  template <class D>
  HWY_INLINE hn::Vec<D> Load(D d, const T* x) const {
    return hn::LoadU(d, x);
  }
};

// f16 and bf16, as integers in the same order; equal for equal elements. A NaN
// is beyond every other: the first one wins like any first winner.
struct HalfLanes {
  using Element = int16_t;
  using Lane = int16_t;
  static constexpr bool kHasNan = false;

  int16_t infinity;      // its bits
  int16_t min_non_zero;  // bits of the smallest number that is not equal to 0.0
  int16_t nan_code;      // beyond every other

  Lane Get(int16_t bits) const {
    const int16_t magnitude = bits & 0x7fff;
    if (magnitude > infinity) return nan_code;
    if (magnitude < min_non_zero) return 0;
    return bits < 0 ? static_cast<int16_t>(-magnitude) : magnitude;
  }
  template <class D>
  HWY_INLINE hn::Vec<D> Load(D d, const int16_t* x) const {
    const auto bits = hn::LoadU(d, x);
    const auto magnitude = hn::And(bits, hn::Set(d, int16_t{0x7fff}));
    const auto code = hn::IfThenElse(hn::Lt(bits, hn::Zero(d)),
                                     hn::Neg(magnitude), magnitude);
    const auto is_zero = hn::Lt(magnitude, hn::Set(d, min_non_zero));
    const auto is_nan = hn::Gt(magnitude, hn::Set(d, infinity));
    return hn::IfThenElse(is_nan, hn::Set(d, nan_code),
                          hn::IfThenZeroElse(is_zero, code));
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace xla_ffi_accelerate::argmax
HWY_AFTER_NAMESPACE();

#endif  // include guard, per target
