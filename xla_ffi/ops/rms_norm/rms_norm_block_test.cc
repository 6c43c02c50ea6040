#include <complex>
#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "xla_ffi/core/half.h"
#include "xla_ffi/ops/rms_norm/rms_norm_handler.h"
#include "xla_ffi/testing/bad_frames.h"
#include "xla_ffi/testing/call_frame.h"

namespace xla_ffi_kit {
namespace {

using testing::CallFrame;
using testing::ExpectInvalid;
using testing::ExpectRefusesBadFrames;

class RmsNormBlockTest : public ::testing::Test {
 protected:
  // Rows of root mean square 5 and 1.
  std::vector<float> x_ = {5, -5, 5, 1, -1, 1}, weight_ = {1, 10, -10};
  std::vector<float> y_ = std::vector<float>(6), scale_ = {0, 0};
};

TEST_F(RmsNormBlockTest, AddsTheInputAndClips) {
  ASSERT_TRUE(CallFrame()
                  .Arg(x_, {2, 3})
                  .Arg(weight_, {3})
                  .Ret(y_, {2, 3})
                  .Ret(scale_, {2})
                  .Attr("eps", 0.0)
                  .Run(XlaFfiKitRmsNormBlockFwdCpu)
                  .ok());
  EXPECT_EQ(y_, (std::vector<float>{6, 0, 0, 2, 0, 0}));
  EXPECT_EQ(scale_, (std::vector<float>{0.2f, 1}));

  std::vector<float> alone(6);
  ASSERT_TRUE(CallFrame()
                  .Arg(x_, {2, 3})
                  .Arg(weight_, {3})
                  .Ret(alone, {2, 3})
                  .Attr("eps", 0.0)
                  .Run(XlaFfiKitRmsNormBlockCpu)
                  .ok());
  EXPECT_EQ(alone, y_);
}

// Also where the threads share a row.
TEST_F(RmsNormBlockTest, RoundsOnce) {
  const int64_t n = 1 << 20;
  std::vector<BFloat16> x(n, BFloat16(1.0f)), weight(n, BFloat16(0x1p-8f)),
      y(n);
  ASSERT_TRUE(CallFrame()
                  .Arg(x, {n})
                  .Arg(weight, {n})
                  .Ret(y, {n})
                  .Attr("eps", 0.0)
                  .Threads(2)
                  .Run(XlaFfiKitRmsNormBlockCpu)
                  .ok());
  // 1 + 2^-8 is halfway between two bfloat16s, and goes to the even one.
  EXPECT_EQ(static_cast<float>(y[n / 3]), 1);
  std::fill(weight.begin(), weight.end(), BFloat16(0x1.02p-8f));
  ASSERT_TRUE(CallFrame()
                  .Arg(x, {n})
                  .Arg(weight, {n})
                  .Ret(y, {n})
                  .Attr("eps", 0.0)
                  .Threads(2)
                  .Run(XlaFfiKitRmsNormBlockCpu)
                  .ok());
  EXPECT_EQ(static_cast<float>(y[n / 3]), 1 + 0x1p-7f);
}

TEST_F(RmsNormBlockTest, RefusesBadFrames) {
  const CallFrame good = CallFrame()
                             .Arg(x_, {2, 3})
                             .Arg(weight_, {3})
                             .Ret(y_, {2, 3})
                             .Attr("eps", 0.0);
  ExpectRefusesBadFrames(XlaFfiKitRmsNormBlockCpu, good);
  CallFrame with_scale = good;
  with_scale.Ret(scale_, {2});
  ExpectRefusesBadFrames(XlaFfiKitRmsNormBlockFwdCpu, with_scale);
}

TEST_F(RmsNormBlockTest, RefusesComplexNumbers) {
  std::vector<std::complex<float>> x(3), weight(3), y(3);
  ExpectInvalid(CallFrame()
                    .Arg(x, {3})
                    .Arg(weight, {3})
                    .Ret(y, {3})
                    .Attr("eps", 0.0)
                    .Run(XlaFfiKitRmsNormBlockCpu),
                "xla_ffi_kit.rms_norm_block: operand x: expected one of the "
                "dtypes f16, bf16, f32, f64, got c64");
}

}  // namespace
}  // namespace xla_ffi_kit
