// Every conversion of the SIMD kernels, on every instruction set.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "gtest/gtest.h"
#include "xla_ffi/core/half.h"
#include "xla_ffi/core/simd_targets.h"
#include "xla_ffi/testing/for_each_simd_target.h"

#ifndef XLA_FFI_CORE_SIMD_FLOAT_TEST_ONCE_
#define XLA_FFI_CORE_SIMD_FLOAT_TEST_ONCE_
namespace xla_ffi_kit {
// HWY_EXPORT_T takes one template argument.
template <typename F, typename T>
struct Conversion {
  using From = F;
  using To = T;
};
}  // namespace xla_ffi_kit
#endif  // XLA_FFI_CORE_SIMD_FLOAT_TEST_ONCE_

// Compiles the rest of this file once per instruction set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "xla_ffi/core/simd_float_test.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// Must come after foreach_target.h.
#include "hwy/highway.h"
#include "xla_ffi/core/simd_float-inl.h"

HWY_BEFORE_NAMESPACE();
namespace xla_ffi_kit {
namespace HWY_NAMESPACE {

// to[i] = from[i], vector by vector: pairs of different types do not match.
template <class Pair>
void Copy(const typename Pair::From* from, size_t count,
          typename Pair::To* to) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    WholeVector().Store(WholeVector().Load(d, from + i), d, to + i);
  }
  const PartOfVector part = {count - i};
  if (i < count) part.Store(part.Load(d, from + i), d, to + i);
}

// Floats from their upper and lower halves.
struct JoinBody {
  const BFloat16* upper;
  const BFloat16* lower;
  BFloat16* to;

  template <class V>
  static HWY_INLINE V Join(V upper, V lower) {
    const hn::DFromV<V> d;
    const hn::RebindToUnsigned<decltype(d)> du;
    return hn::BitCast(d, hn::Or(hn::BitCast(du, upper),
                                 hn::ShiftRight<16>(hn::BitCast(du, lower))));
  }
  template <class V>
  static HWY_INLINE Pair<V> Join(Pair<V> upper, Pair<V> lower) {
    return {Join(upper.a, lower.a), Join(upper.b, lower.b)};
  }

  template <class Access>
  HWY_INLINE void operator()(Access access, size_t i) const {
    const hn::ScalableTag<float> d;
    access.Store(Join(access.Load(d, upper + i), access.Load(d, lower + i)), d,
                 to + i);
  }
};

// Rounds floats, given as halves, to BFloat16.
void RoundJoined(const BFloat16* upper, const BFloat16* lower, size_t count,
                 BFloat16* to) {
  ForEachVector(hn::ScalableTag<float>(), count, JoinBody{upper, lower, to});
}

}  // namespace HWY_NAMESPACE
}  // namespace xla_ffi_kit
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace xla_ffi_kit {
namespace {

template <typename To, typename From>
std::vector<To> Converted(const std::vector<From>& from) {
  std::vector<To> to(from.size());
  using Pair = Conversion<From, To>;
  HWY_EXPORT_T(Table, Copy<Pair>);
  HWY_DYNAMIC_DISPATCH_T(Table)(from.data(), from.size(), to.data());
  return to;
}

template <typename Half>
class SimdHalfTest : public ::testing::Test {};
using Halves = ::testing::Types<Float16, BFloat16>;
TYPED_TEST_SUITE(SimdHalfTest, Halves);

TYPED_TEST(SimdHalfTest, EveryPatternWidensAsTheScalarOne) {
  std::vector<TypeParam> halves;
  for (uint32_t bits = 0; bits <= 0xffff; ++bits) {
    halves.push_back(TypeParam::FromBits(static_cast<uint16_t>(bits)));
  }
  testing::ForEachSimdTarget([&] {
    const std::vector<float> floats = Converted<float>(halves);
    for (size_t i = 0; i < halves.size(); ++i) {
      const auto expected = static_cast<float>(halves[i]);
      if (std::isnan(expected)) {
        ASSERT_TRUE(std::isnan(floats[i])) << i;
      } else {
        ASSERT_EQ(floats[i], expected) << i;
        ASSERT_EQ(std::signbit(floats[i]), std::signbit(expected)) << i;
      }
    }
  });
}

TYPED_TEST(SimdHalfTest, RoundsAsTheScalarOne) {
  // Every upper half of a float, with the lower halves where rounding turns.
  std::vector<float> floats;
  for (uint32_t high = 0; high <= 0xffff; ++high) {
    for (const uint32_t low : {0x0000, 0x0001, 0x0fff, 0x1000, 0x1001, 0x7fff,
                               0x8000, 0x8001, 0xefff, 0xf000, 0xffff}) {
      floats.push_back(half_internal::BitsFloat((high << 16) | low));
    }
  }
  testing::ForEachSimdTarget([&] {
    const std::vector<TypeParam> halves = Converted<TypeParam>(floats);
    for (size_t i = 0; i < floats.size(); ++i) {
      const TypeParam expected(floats[i]);
      if (std::isnan(floats[i])) {
        ASSERT_TRUE(std::isnan(static_cast<float>(halves[i]))) << i;
      } else {
        ASSERT_EQ(halves[i].bits(), expected.bits()) << floats[i];
      }
    }
  });
}

TEST(SimdBFloat16PairTest, RoundsAsTheScalarOne) {
  std::vector<BFloat16> upper, lower;
  for (uint32_t high = 0; high <= 0xffff; ++high) {
    for (const uint16_t low :
         {0x0000, 0x0001, 0x7fff, 0x8000, 0x8001, 0xffff}) {
      upper.push_back(BFloat16::FromBits(static_cast<uint16_t>(high)));
      // A NaN that arithmetic makes of BFloat16 values has a lower half of 0.
      const bool is_nan = (high & 0x7fff) >= 0x7f80;
      lower.push_back(BFloat16::FromBits(is_nan ? 0 : low));
    }
  }
  std::vector<BFloat16> rounded(upper.size());
  testing::ForEachSimdTarget([&] {
    HWY_EXPORT(RoundJoined);
    HWY_DYNAMIC_DISPATCH(RoundJoined)
    (upper.data(), lower.data(), upper.size(), rounded.data());
    for (size_t i = 0; i < upper.size(); ++i) {
      const uint32_t bits = (uint32_t{upper[i].bits()} << 16) | lower[i].bits();
      const float value = half_internal::BitsFloat(bits);
      if (std::isnan(value)) {
        ASSERT_TRUE(std::isnan(static_cast<float>(rounded[i]))) << bits;
      } else {
        ASSERT_EQ(rounded[i].bits(), BFloat16(value).bits()) << bits;
      }
    }
  });
}

TYPED_TEST(SimdHalfTest, EveryLengthStopsWhereItShould) {
  testing::ForEachSimdTarget([] {
    for (size_t count = 0; count <= 100; ++count) {
      std::vector<float> floats(count, 1.5f);
      std::vector<TypeParam> halves = Converted<TypeParam>(floats);
      for (const TypeParam half : halves) {
        ASSERT_EQ(static_cast<float>(half), 1.5f);
      }
      ASSERT_EQ(Converted<float>(halves), floats);
    }
  });
}

}  // namespace
}  // namespace xla_ffi_kit

#endif  // HWY_ONCE
