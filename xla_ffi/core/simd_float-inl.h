// Floating-point arrays of any width as vectors of the type they are computed
// in: 16-bit elements are widened to float when loaded, and rounded to nearest
// even when stored; and arithmetic on such vectors, one or two at a time.
//
// Compiled once per instruction set, as Highway's foreach_target.h does.

#if defined(XLA_FFI_CORE_SIMD_FLOAT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef XLA_FFI_CORE_SIMD_FLOAT_INL_H_
#undef XLA_FFI_CORE_SIMD_FLOAT_INL_H_
#else
#define XLA_FFI_CORE_SIMD_FLOAT_INL_H_
#endif

#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "hwy/highway.h"
#include "xla_ffi/core/dtypes.h"
#include "xla_ffi/core/half.h"

HWY_BEFORE_NAMESPACE();
namespace xla_ffi_kit {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// --- Float16 -----------------------------------------------------------------
//
// Right for every value. If the instruction set has conversions, Highway uses
// them. SSE2 has none, and Highway 1.2 replaces them by code that ignores NaN
// and infinity. The code here handles both, with the arithmetic of half.h.

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

// --- Pairs of vectors --------------------------------------------------------
//
// A vector register of BFloat16 is the even elements in the upper halves and
// the odd ones in the lower halves of a register of floats: as a pair, they are
// widened and rounded with only shifts and masks, where keeping their order
// would take shuffles, which are what limits a kernel on 16-bit elements. So
// the kernels work on pairs whose order of elements is left open; the functions
// here take pairs and single vectors alike, so that a loop's body serves both.

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

// --- Arrays ------------------------------------------------------------------

// Vectors of the type that R is computed in.
template <typename R>
using WideTag = hn::ScalableTag<AccumulationType<R>>;

// Highway's name of the element type R.
template <typename R>
struct Lane {
  using type = R;
};
template <>
struct Lane<Float16> {
  using type = hwy::float16_t;
};
template <>
struct Lane<BFloat16> {
  using type = hwy::bfloat16_t;
};

// The tag of as many elements R as D has lanes.
template <typename R, class D>
using ElementTag = hn::Rebind<typename Lane<R>::type, D>;

template <typename R>
HWY_INLINE const typename Lane<R>::type* AsLanes(const R* p) {
  return reinterpret_cast<const typename Lane<R>::type*>(p);
}
template <typename R>
HWY_INLINE typename Lane<R>::type* AsLanes(R* p) {
  return reinterpret_cast<typename Lane<R>::type*>(p);
}

// Converts elements to the type that they are computed in, and back.
template <class D, class V>
HWY_INLINE hn::Vec<D> Widen(D d, V elements) {
  if constexpr (std::is_same_v<V, hn::Vec<D>>) {
    return elements;
  } else if constexpr (std::is_same_v<hn::TFromV<V>, hwy::float16_t>) {
    return HalfToFloat(d, elements);
  } else {
    return hn::PromoteTo(d, elements);
  }
}
template <class DElement, class V>
HWY_INLINE hn::Vec<DElement> Narrow(DElement d, V wide) {
  if constexpr (std::is_same_v<V, hn::Vec<DElement>>) {
    return wide;
  } else if constexpr (std::is_same_v<hn::TFromD<DElement>, hwy::float16_t>) {
    return FloatToHalf(d, wide);
  } else {
    return hn::DemoteTo(d, wide);
  }
}

// Access to a pair of vectors: as many elements as two of D's have lanes, in an
// order of the element type's own.
struct WholePair {
  template <class D, typename R>
  HWY_INLINE Pair<hn::Vec<D>> Load(D d, const R* p) const {
    if constexpr (std::is_same_v<R, BFloat16>) {
      return SplitBFloat16(d, p);
    } else {
      const ElementTag<R, D> de;
      return {Widen(d, hn::LoadU(de, AsLanes(p))),
              Widen(d, hn::LoadU(de, AsLanes(p + hn::Lanes(d))))};
    }
  }
  template <class D, typename R>
  HWY_INLINE void Store(Pair<hn::Vec<D>> v, D d, R* p) const {
    if constexpr (std::is_same_v<R, BFloat16>) {
      JoinBFloat16(v, p);
    } else {
      const ElementTag<R, D> de;
      hn::StoreU(Narrow(de, v.a), de, AsLanes(p));
      hn::StoreU(Narrow(de, v.b), de, AsLanes(p + hn::Lanes(d)));
    }
  }
};

// Access to one vector.
struct WholeVector {
  template <class D, typename R>
  HWY_INLINE hn::Vec<D> Load(D d, const R* p) const {
    return Widen(d, hn::LoadU(ElementTag<R, D>(), AsLanes(p)));
  }
  template <class D, typename R>
  HWY_INLINE void Store(hn::Vec<D> v, D, R* p) const {
    const ElementTag<R, D> d;
    hn::StoreU(Narrow(d, v), d, AsLanes(p));
  }
};

// Access to the last `count` elements of an array, less than a vector: the
// lanes beyond them are zero when loaded and left alone when stored.
struct PartOfVector {
  size_t count;

  template <class D, typename R>
  HWY_INLINE hn::Vec<D> Load(D d, const R* p) const {
    return Widen(d, hn::LoadN(ElementTag<R, D>(), AsLanes(p), count));
  }
  template <class D, typename R>
  HWY_INLINE void Store(hn::Vec<D> v, D, R* p) const {
    const ElementTag<R, D> d;
    hn::StoreN(Narrow(d, v), d, AsLanes(p), count);
  }
};

// The value as the element type R would store it.
template <typename R, class V>
HWY_INLINE V RoundTo(V v) {
  const hn::DFromV<V> d;
  return Widen(d, Narrow(ElementTag<R, decltype(d)>(), v));
}
template <typename R, class V>
HWY_INLINE Pair<V> RoundTo(Pair<V> v) {
  return {RoundTo<R>(v.a), RoundTo<R>(v.b)};
}

// Calls body(access, i) for consecutive parts that cover [0, count).
template <class D, class Body>
HWY_INLINE void ForEachVector(D d, size_t count, const Body& body) {
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + 4 * lanes <= count; i += 4 * lanes) {
    body(WholePair(), i);
    body(WholePair(), i + 2 * lanes);
  }
  if (i + 2 * lanes <= count) {
    body(WholePair(), i);
    i += 2 * lanes;
  }
  if (i + lanes <= count) {
    body(WholeVector(), i);
    i += lanes;
  }
  if (i < count) body(PartOfVector{count - i}, i);
}

}  // namespace HWY_NAMESPACE
}  // namespace xla_ffi_kit
HWY_AFTER_NAMESPACE();

#endif  // XLA_FFI_CORE_SIMD_FLOAT_INL_H_
