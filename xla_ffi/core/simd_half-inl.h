// Vectors of Float16 to and from float, right for every value.
//
// If the instruction set has conversions, Highway uses them. SSE2 has none, and
// Highway 1.2 replaces them by code that ignores NaN and infinity. The code
// here handles both, with the arithmetic of half.h.
//
// Compiled once per instruction set, as Highway's foreach_target.h does.

#if defined(XLA_FFI_CORE_SIMD_HALF_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef XLA_FFI_CORE_SIMD_HALF_INL_H_
#undef XLA_FFI_CORE_SIMD_HALF_INL_H_
#else
#define XLA_FFI_CORE_SIMD_HALF_INL_H_
#endif

#include <cstdint>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace xla_ffi_kit {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// On x86, better targets have lower numbers.
#undef XLA_FFI_KIT_CONVERTS_HALF
#if HWY_ARCH_X86 && HWY_TARGET >= HWY_SSE4 && HWY_TARGET <= HWY_SSE2
#define XLA_FFI_KIT_CONVERTS_HALF 0
#else
#define XLA_FFI_KIT_CONVERTS_HALF 1
#endif

template <class D, class V>
HWY_INLINE hn::Vec<D> HalfToFloat(D d, V half) {
#if XLA_FFI_KIT_CONVERTS_HALF
  return hn::PromoteTo(d, half);
#else
  const hn::RebindToUnsigned<D> du;
  const hn::RebindToSigned<D> di;
  const auto bits =
      hn::PromoteTo(du, hn::BitCast(hn::Rebind<uint16_t, D>(), half));
  const auto magnitude = hn::And(bits, hn::Set(du, 0x7fff));
  const auto sign = hn::ShiftLeft<16>(hn::Sub(bits, magnitude));
  // Zero or subnormal: a multiple of 2^-24, and a normal float.
  const auto small =
      hn::BitCast(du, hn::Mul(hn::ConvertTo(d, hn::BitCast(di, magnitude)),
                              hn::Set(d, 0x1p-24f)));
  const auto rebias = hn::Set(du, uint32_t{127 - 15} << 23);
  auto result = hn::Add(hn::ShiftLeft<13>(magnitude), rebias);
  // Infinity and NaN: on to the largest exponent.
  const auto special = hn::Gt(hn::BitCast(di, magnitude), hn::Set(di, 0x7bff));
  result =
      hn::Add(result, hn::IfThenElseZero(hn::RebindMask(du, special), rebias));
  const auto is_small = hn::Lt(hn::BitCast(di, magnitude), hn::Set(di, 0x0400));
  result = hn::IfThenElse(hn::RebindMask(du, is_small), small, result);
  return hn::BitCast(d, hn::Or(result, sign));
#endif
}

template <class DHalf, class V>
HWY_INLINE hn::Vec<DHalf> FloatToHalf(DHalf d_half, V v) {
#if XLA_FFI_KIT_CONVERTS_HALF
  return hn::DemoteTo(d_half, v);
#else
  const hn::DFromV<V> d;
  const hn::RebindToUnsigned<decltype(d)> du;
  const hn::RebindToSigned<decltype(d)> di;
  const auto bits = hn::BitCast(di, v);
  const auto magnitude = hn::And(bits, hn::Set(di, 0x7fffffff));
  const auto sign = hn::And(hn::ShiftRight<16>(bits), hn::Set(di, 0x8000));
  const auto odd = hn::And(hn::ShiftRight<13>(magnitude), hn::Set(di, 1));
  auto half = hn::ShiftRight<13>(
      hn::Add(hn::Sub(magnitude, hn::Set(di, (127 - 15) << 23)),
              hn::Add(odd, hn::Set(di, 0x0fff))));
  // Below 2^-14, adding 0.5 rounds to a multiple of 2^-24.
  const auto half_of_one = hn::Set(d, 0.5f);
  const auto small =
      hn::Sub(hn::BitCast(di, hn::Add(hn::BitCast(d, magnitude), half_of_one)),
              hn::BitCast(di, half_of_one));
  half =
      hn::IfThenElse(hn::Lt(magnitude, hn::Set(di, 0x38800000)), small, half);
  half = hn::IfThenElse(hn::Gt(magnitude, hn::Set(di, 0x477fefff)),
                        hn::Set(di, 0x7c00), half);
  const auto nan =
      hn::Or(hn::Set(di, 0x7e00),
             hn::And(hn::ShiftRight<13>(magnitude), hn::Set(di, 0x03ff)));
  half = hn::IfThenElse(hn::Gt(magnitude, hn::Set(di, 0x7f800000)), nan, half);
  const hn::Rebind<uint16_t, decltype(d)> du16;
  return hn::BitCast(d_half,
                     hn::TruncateTo(du16, hn::BitCast(du, hn::Or(half, sign))));
#endif
}

}  // namespace HWY_NAMESPACE
}  // namespace xla_ffi_kit
HWY_AFTER_NAMESPACE();

#endif  // XLA_FFI_CORE_SIMD_HALF_INL_H_
