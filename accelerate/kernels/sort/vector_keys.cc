#include "accelerate/kernels/sort/vector_keys.h"

#include <cstdint>
#include <type_traits>

#include "accelerate/core/ordered_key.h"
#include "accelerate/core/packed_key.h"
#include "accelerate/core/vector_sort.h"
#include "xla_ffi/core/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "accelerate/kernels/sort/vector_keys.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// Must come after foreach_target.h.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace xla_ffi_accelerate::sort {
namespace HWY_NAMESPACE {

// The loops of codes are plain: compilers vectorize them for the set at hand.

template <typename Code>
bool Encode(const Code& of, const typename Code::Key* in, int64_t n,
            typename Code::Key* codes) {
  using K = typename Code::Key;
  const Code code = of;  // which no store can change
  K changed = 0;
  for (int64_t i = 0; i < n; ++i) {
    if constexpr (Code::kHasTies) {
      const K bits = in[i];
      const K canonical = code.Canonical(bits);
      changed |= canonical ^ bits;
      codes[i] = Code::EncodeCanonical(canonical);
    } else {
      codes[i] = code.Encode(in[i]);
    }
  }
  return changed != 0;
}

template <typename Code>
void Decode(const Code& of, int64_t n, typename Code::Key* codes) {
  const Code code = of;
  for (int64_t i = 0; i < n; ++i) codes[i] = code.Decode(codes[i]);
}

template <typename Types>
void Pack(const typename Types::Code& of, const typename Types::Code::Key* in,
          int64_t n, int64_t first, typename Types::Packed* packed) {
  const typename Types::Code code = of;
  for (int64_t i = 0; i < n; ++i) {
    packed[i] =
        Packing<typename Types::Packed>::Join(code.Encode(in[i]), first + i);
  }
}

template <typename Types>
void Unpack(const typename Types::Code& of,
            const typename Types::Packed* packed, int64_t n,
            typename Types::Code::Key* keys) {
  using K = typename Types::Code::Key;
  const typename Types::Code code = of;
  for (int64_t i = 0; i < n; ++i) {
    keys[i] = code.Decode(
        static_cast<K>(Packing<typename Types::Packed>::Code(packed[i])));
  }
}

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
namespace {

// Highway's tables take templates of one parameter.
template <typename C, typename P>
struct PackTypes {
  using Code = C;
  using Packed = P;
};

}  // namespace

template <typename Code>
bool EncodeKeys(const Code& code, const typename Code::Key* in, int64_t n,
                typename Code::Key* codes) {
  HWY_EXPORT_T(EncodeTable, Encode<Code>);
  return HWY_DYNAMIC_DISPATCH_T(EncodeTable)(code, in, n, codes);
}

template <typename Code>
void DecodeKeys(const Code& code, int64_t n, typename Code::Key* codes) {
  HWY_EXPORT_T(DecodeTable, Decode<Code>);
  HWY_DYNAMIC_DISPATCH_T(DecodeTable)(code, n, codes);
}

template <typename Code, typename Packed>
void PackKeys(const Code& code, const typename Code::Key* in, int64_t n,
              int64_t first, Packed* packed) {
  using Types = PackTypes<Code, Packed>;
  HWY_EXPORT_T(PackTable, Pack<Types>);
  HWY_DYNAMIC_DISPATCH_T(PackTable)(code, in, n, first, packed);
}

template <typename Code, typename Packed>
void UnpackKeys(const Code& code, const Packed* packed, int64_t n,
                typename Code::Key* keys) {
  using Types = PackTypes<Code, Packed>;
  HWY_EXPORT_T(UnpackTable, Unpack<Types>);
  HWY_DYNAMIC_DISPATCH_T(UnpackTable)(code, packed, n, keys);
}

#define XLA_FFI_KIT_INSTANTIATE(Code)                                          \
  template bool EncodeKeys(const Code&, const Code::Key*, int64_t,             \
                           Code::Key*);                                        \
  template void DecodeKeys(const Code&, int64_t, Code::Key*);                  \
  template void PackKeys(const Code&, const Code::Key*, int64_t, int64_t,      \
                         uint64_t*);                                           \
  template void PackKeys(const Code&, const Code::Key*, int64_t, int64_t,      \
                         Pair64*);                                             \
  template void UnpackKeys(const Code&, const uint64_t*, int64_t, Code::Key*); \
  template void UnpackKeys(const Code&, const Pair64*, int64_t, Code::Key*)
XLA_FFI_KIT_INSTANTIATE(IntegerCode<uint8_t>);
XLA_FFI_KIT_INSTANTIATE(IntegerCode<uint16_t>);
XLA_FFI_KIT_INSTANTIATE(IntegerCode<uint32_t>);
XLA_FFI_KIT_INSTANTIATE(IntegerCode<uint64_t>);
XLA_FFI_KIT_INSTANTIATE(FloatCode<uint16_t>);
XLA_FFI_KIT_INSTANTIATE(FloatCode<uint32_t>);
XLA_FFI_KIT_INSTANTIATE(FloatCode<uint64_t>);
#undef XLA_FFI_KIT_INSTANTIATE

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
