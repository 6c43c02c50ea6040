// Arithmetic on two vectors at a time.
//
// A vector register of BFloat16 is the even elements in the upper halves and
// the odd ones in the lower halves of a register of floats: as a pair, they are
// widened and rounded with only shifts and masks, where keeping their order
// would take shuffles, which are what limits a kernel on 16-bit elements. So
// the kernels work on pairs whose order of elements is left open; the functions
// here take pairs and single vectors alike, so that a loop's body serves both.
//
// Compiled once per instruction set, as Highway's foreach_target.h does.

#if defined(XLA_FFI_CORE_SIMD_PAIR_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef XLA_FFI_CORE_SIMD_PAIR_INL_H_
#undef XLA_FFI_CORE_SIMD_PAIR_INL_H_
#else
#define XLA_FFI_CORE_SIMD_PAIR_INL_H_
#endif

#include <cstdint>
#include <limits>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace xla_ffi_kit {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <class V>
struct Pair {
  V a, b;
};

// Highway's functions, for pairs, too.
using hn::Add;
using hn::Mul;
using hn::MulAdd;
using hn::NegMulAdd;

template <class V>
HWY_INLINE Pair<V> Add(Pair<V> x, Pair<V> y) {
  return {hn::Add(x.a, y.a), hn::Add(x.b, y.b)};
}

template <class V>
HWY_INLINE Pair<V> Mul(Pair<V> x, Pair<V> y) {
  return {hn::Mul(x.a, y.a), hn::Mul(x.b, y.b)};
}
template <class V>
HWY_INLINE Pair<V> Mul(Pair<V> x, V y) {
  return {hn::Mul(x.a, y), hn::Mul(x.b, y)};
}

template <class V>
HWY_INLINE Pair<V> MulAdd(Pair<V> x, Pair<V> y, Pair<V> z) {
  return {hn::MulAdd(x.a, y.a, z.a), hn::MulAdd(x.b, y.b, z.b)};
}
template <class V>
HWY_INLINE Pair<V> MulAdd(Pair<V> x, V y, Pair<V> z) {
  return {hn::MulAdd(x.a, y, z.a), hn::MulAdd(x.b, y, z.b)};
}
template <class V>
HWY_INLINE Pair<V> NegMulAdd(Pair<V> x, V y, Pair<V> z) {
  return {hn::NegMulAdd(x.a, y, z.a), hn::NegMulAdd(x.b, y, z.b)};
}

// The even and the odd elements of a register of BFloat16.
template <class D>
HWY_INLINE Pair<hn::Vec<D>> SplitBFloat16(D d, const void* p) {
  static_assert(HWY_IS_LITTLE_ENDIAN, "the lower half comes first");
  const hn::RebindToUnsigned<D> du;
  const hn::Repartition<uint8_t, D> d8;  // of any alignment
  const auto bits =
      hn::BitCast(du, hn::LoadU(d8, static_cast<const uint8_t*>(p)));
  return {hn::BitCast(d, hn::ShiftLeft<16>(bits)),
          hn::BitCast(d, hn::And(bits, hn::Set(du, 0xffff0000u)))};
}

// The inverse of SplitBFloat16, rounding to nearest even, both vectors at once.
// There is no test for NaN, so one with a payload of ones, to which rounding
// adds, becomes zero. Arithmetic makes no such NaN from BFloat16 values, whose
// lower halves are zero, and the canonical NaN; see Canonical().
template <class V>
HWY_INLINE void JoinBFloat16(Pair<V> v, void* p) {
  const hn::DFromV<V> d;
  const hn::RebindToUnsigned<decltype(d)> du;
  const hn::Repartition<uint16_t, decltype(d)> d16;
  const hn::Repartition<uint8_t, decltype(d)> d8;
  const auto a = hn::BitCast(du, v.a), b = hn::BitCast(du, v.b);
  const auto upper_half = hn::Set(du, 0xffff0000u);
  const auto upper =
      hn::BitCast(d16, hn::Or(hn::ShiftRight<16>(a), hn::And(b, upper_half)));
  const auto lower =
      hn::BitCast(d16, hn::Or(hn::AndNot(upper_half, a), hn::ShiftLeft<16>(b)));
  // The carry of lower + 0x7fff + (upper & 1), which an average does not lose:
  // it is (x + y + 1) / 2.
  const auto addend =
      hn::Or(hn::And(upper, hn::Set(d16, 1)), hn::Set(d16, 0x7ffe));
  const auto carry = hn::ShiftRight<15>(hn::AverageRound(lower, addend));
  hn::StoreU(hn::BitCast(d8, hn::Add(upper, carry)), d8,
             static_cast<uint8_t*>(p));
}

// A factor from outside, made fit for products that are stored as BFloat16.
template <typename A>
HWY_INLINE A Canonical(A value) {
  return value == value ? value : std::numeric_limits<A>::quiet_NaN();
}

}  // namespace HWY_NAMESPACE
}  // namespace xla_ffi_kit
HWY_AFTER_NAMESPACE();

#endif  // XLA_FFI_CORE_SIMD_PAIR_INL_H_
