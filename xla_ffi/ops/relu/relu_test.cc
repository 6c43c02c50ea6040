#include "xla_ffi/ops/relu/relu.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "gtest/gtest.h"
#include "xla_ffi/core/half.h"

namespace xla_ffi_kit {
namespace {

template <typename Half>
void ExpectEveryPatternRight() {
  std::vector<Half> x, y(0x10000);
  for (uint32_t bits = 0; bits <= 0xffff; ++bits) {
    x.push_back(Half::FromBits(static_cast<uint16_t>(bits)));
  }
  Relu(x.data(), 0x10000, y.data());
  for (uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const float value = static_cast<float>(x[bits]);
    const bool stays = std::isnan(value) || value > 0;
    EXPECT_EQ(y[bits].bits(), stays ? bits : 0) << std::hex << bits;
  }
}

TEST(ReluTest, EveryHalfPattern) {
  ExpectEveryPatternRight<Float16>();
  ExpectEveryPatternRight<BFloat16>();
}

template <typename T>
class ReluFloatTest : public ::testing::Test {};
using Floats = ::testing::Types<float, double>;
TYPED_TEST_SUITE(ReluFloatTest, Floats);

TYPED_TEST(ReluFloatTest, SpecialValues) {
  using Limits = std::numeric_limits<TypeParam>;
  const TypeParam nan = Limits::quiet_NaN(), tiny = Limits::denorm_min();
  const std::vector<TypeParam> x = {0,
                                    -TypeParam(0),
                                    tiny,
                                    -tiny,
                                    Limits::infinity(),
                                    -Limits::infinity(),
                                    1,
                                    -1,
                                    nan,
                                    -nan,
                                    Limits::max(),
                                    Limits::lowest()};
  const std::vector<TypeParam> expected = {
      0, 0, tiny, 0, Limits::infinity(), 0, 1, 0, nan, nan, Limits::max(), 0};
  std::vector<TypeParam> y(x.size());
  Relu(x.data(), static_cast<int64_t>(x.size()), y.data());
  for (size_t i = 0; i < x.size(); ++i) {
    EXPECT_EQ(std::isnan(y[i]), std::isnan(expected[i])) << i;
    if (std::isnan(expected[i])) continue;
    EXPECT_EQ(y[i], expected[i]) << i;
    EXPECT_FALSE(std::signbit(y[i])) << i;
  }
}

template <typename T>
class ReluIntegerTest : public ::testing::Test {};
using Integers = ::testing::Types<int8_t, int16_t, int32_t, int64_t>;
TYPED_TEST_SUITE(ReluIntegerTest, Integers);

TYPED_TEST(ReluIntegerTest, EveryLengthAndTheExtremes) {
  using Limits = std::numeric_limits<TypeParam>;
  for (int64_t count = 0; count <= 100; ++count) {
    std::vector<TypeParam> x(count), y(count + 1, 77);
    for (int64_t i = 0; i < count; ++i) {
      x[i] = static_cast<TypeParam>((i * 37) % 101 - 50);
    }
    if (count > 2) x[1] = Limits::min(), x[2] = Limits::max();
    Relu(x.data(), count, y.data());
    for (int64_t i = 0; i < count; ++i) {
      ASSERT_EQ(y[i], x[i] > 0 ? x[i] : 0) << count << ", " << i;
    }
    ASSERT_EQ(y[count], 77);
    Relu(x.data(), count, x.data());
    for (int64_t i = 0; i < count; ++i) ASSERT_EQ(x[i], y[i]);
  }
}

}  // namespace
}  // namespace xla_ffi_kit
