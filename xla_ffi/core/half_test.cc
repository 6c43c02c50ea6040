#include "xla_ffi/core/half.h"

#include <cmath>
#include <cstdint>
#include <limits>

#include "gtest/gtest.h"

namespace xla_ffi_kit {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

// Value of a binary16 pattern straight from the standard's formula.
double Float16Value(uint16_t bits) {
  const int exponent = (bits >> 10) & 0x1f;
  const int mantissa = bits & 0x3ff;
  const double magnitude = exponent == 0
                               ? std::ldexp(mantissa, -24)
                               : std::ldexp(1024 + mantissa, exponent - 25);
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

template <typename Half>
void ExpectRoundTripOfEveryPattern(int nan_above) {
  for (uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const Half half = Half::FromBits(static_cast<uint16_t>(bits));
    const float value = static_cast<float>(half);
    if (static_cast<int>(bits & 0x7fff) > nan_above) {
      EXPECT_TRUE(std::isnan(value)) << std::hex << bits;
      EXPECT_TRUE(std::isnan(static_cast<float>(Half(value)))) << bits;
    } else {
      EXPECT_EQ(Half(value).bits(), bits) << std::hex << bits;
    }
  }
}

TEST(HalfTest, EveryPatternSurvivesTheRoundTrip) {
  ExpectRoundTripOfEveryPattern<BFloat16>(0x7f80);
  ExpectRoundTripOfEveryPattern<Float16>(0x7c00);
}

TEST(HalfTest, EveryFinitePatternHasTheStandardsValue) {
  for (uint32_t bits = 0; bits <= 0xffff; ++bits) {
    if ((bits & 0x7c00) == 0x7c00) continue;
    const auto pattern = static_cast<uint16_t>(bits);
    EXPECT_EQ(static_cast<float>(Float16::FromBits(pattern)),
              Float16Value(pattern));
  }
}

// Between two neighbors `low` and `low + 1` the midpoint goes to the even
// one, and anything else to the nearer one; this covers every interval.
template <typename Half>
void ExpectNearestEven(uint16_t last_finite) {
  for (uint16_t low = 0; low < last_finite; ++low) {
    const uint16_t high = low + 1;
    const double a = static_cast<float>(Half::FromBits(low));
    const double b = static_cast<float>(Half::FromBits(high));
    const auto middle = static_cast<float>((a + b) / 2);  // exact in float
    const uint16_t even = (low & 1) == 0 ? low : high;
    for (const uint16_t sign : {0x0000, 0x8000}) {
      const float s = sign != 0 ? -1.0f : 1.0f;
      EXPECT_EQ(Half(s * middle).bits(), sign | even) << low;
      EXPECT_EQ(Half(s * std::nextafter(middle, 0.0f)).bits(), sign | low);
      EXPECT_EQ(Half(s * std::nextafter(middle, kInf)).bits(), sign | high);
    }
  }
}

TEST(HalfTest, RoundsToNearestEven) {
  ExpectNearestEven<BFloat16>(0x7f7f);
  ExpectNearestEven<Float16>(0x7bff);
}

TEST(HalfTest, OverflowsToInfinityAndUnderflowsToSignedZero) {
  EXPECT_EQ(Float16(65519.996f).bits(), 0x7bff);
  EXPECT_EQ(Float16(65520.0f).bits(), 0x7c00);
  EXPECT_EQ(Float16(-1e30f).bits(), 0xfc00);
  EXPECT_EQ(Float16(0x1p-25f).bits(), 0x0000);
  EXPECT_EQ(Float16(std::nextafter(0x1p-25f, 1.0f)).bits(), 0x0001);
  EXPECT_EQ(Float16(-1e-30f).bits(), 0x8000);
  EXPECT_EQ(BFloat16(std::numeric_limits<float>::max()).bits(), 0x7f80);
}

TEST(HalfTest, NanWithOnlyLowPayloadStaysNan) {
  const float nan = half_internal::BitsFloat(0x7f800001);
  EXPECT_TRUE(std::isnan(static_cast<float>(BFloat16(nan))));
  EXPECT_TRUE(std::isnan(static_cast<float>(Float16(nan))));
}

}  // namespace
}  // namespace xla_ffi_kit
