// Floating-point arrays of any width as vectors of the type they are computed
// in: 16-bit elements are widened to float when loaded, and rounded to nearest
// even when stored.
//
// Compiled once per instruction set, as Highway's foreach_target.h does.

#if defined(XLA_FFI_CORE_SIMD_FLOAT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef XLA_FFI_CORE_SIMD_FLOAT_INL_H_
#undef XLA_FFI_CORE_SIMD_FLOAT_INL_H_
#else
#define XLA_FFI_CORE_SIMD_FLOAT_INL_H_
#endif

#include <cstddef>
#include <type_traits>

#include "hwy/highway.h"
#include "xla_ffi/core/dtypes.h"
#include "xla_ffi/core/half.h"
#include "xla_ffi/core/simd_half-inl.h"
#include "xla_ffi/core/simd_pair-inl.h"

HWY_BEFORE_NAMESPACE();
namespace xla_ffi_kit {
namespace HWY_NAMESPACE {

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
