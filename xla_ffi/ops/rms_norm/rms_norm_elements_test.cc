#include "xla_ffi/ops/rms_norm/rms_norm_elements.h"

#include <cmath>

#include "gtest/gtest.h"

namespace xla_ffi_kit {
namespace {

TEST(ReciprocalSqrtTest, IsRightForEveryMagnitude) {
  using rms_norm_internal::ReciprocalSqrt;
  for (double value = 1e-300; value < 1e300; value *= 1e10) {
    EXPECT_DOUBLE_EQ(ReciprocalSqrt<double>(value), 1 / std::sqrt(value));
  }
  for (double value = 1e-76; value < 1e76; value *= 1.37) {
    const double want = 1 / std::sqrt(value);
    EXPECT_NEAR(ReciprocalSqrt<float>(value) / want, 1, 6e-8) << value;
  }
  // Beyond what floats hold.
  EXPECT_TRUE(std::isinf(ReciprocalSqrt<float>(1e-300)));
  EXPECT_EQ(ReciprocalSqrt<float>(1e300), 0);
  EXPECT_TRUE(std::isinf(ReciprocalSqrt<float>(0)));
  EXPECT_TRUE(std::isnan(ReciprocalSqrt<float>(std::nan(""))));
  EXPECT_EQ(ReciprocalSqrt<float>(INFINITY), 0);
}

}  // namespace
}  // namespace xla_ffi_kit
