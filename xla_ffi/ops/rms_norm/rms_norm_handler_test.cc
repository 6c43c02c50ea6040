#include "xla_ffi/ops/rms_norm/rms_norm_handler.h"

#include <cmath>
#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "xla_ffi/core/half.h"
#include "xla_ffi/testing/call_frame.h"

namespace xla_ffi_kit {
namespace {

using testing::CallFrame;
using testing::Status;

class RmsNormHandlerTest : public ::testing::Test {
 protected:
  std::vector<float> x_ = {3, 4, 0, 5, 12, 0}, y_ = std::vector<float>(6);
  std::vector<float> ct_ = {1, 2, 3, 4, 5, 6}, scale_ = {1, 2, 3, 4, 5, 6};
};

TEST_F(RmsNormHandlerTest, ForwardNormalisesEachRow) {
  const Status status = CallFrame()
                            .Arg(x_, {2, 1, 3})
                            .Ret(y_, {2, 1, 3})
                            .Ret(scale_, {2, 1})
                            .Attr("eps", 0.0)
                            .Run(XlaFfiKitRmsNormFwdCpu);
  ASSERT_TRUE(status.ok()) << status.message;
  const float a = std::sqrt(3.0f) / 5, b = std::sqrt(3.0f) / 13;
  EXPECT_FLOAT_EQ(scale_[0], a);
  EXPECT_FLOAT_EQ(scale_[1], b);
  EXPECT_FLOAT_EQ(y_[1], 4 * a);
  EXPECT_FLOAT_EQ(y_[4], 12 * b);

  std::vector<float> alone(6);
  ASSERT_TRUE(CallFrame()
                  .Arg(x_, {2, 3})
                  .Ret(alone, {2, 3})
                  .Attr("eps", 0.0)
                  .Run(XlaFfiKitRmsNormCpu)
                  .ok());
  EXPECT_EQ(alone, y_);
}

TEST_F(RmsNormHandlerTest, BackwardOfAConstantRowIsOrthogonalToIt) {
  std::vector<float> ones = {1, 1, 1};
  std::vector<float> one = {1}, dx(3);
  ASSERT_TRUE(CallFrame()
                  .Arg(one, {})
                  .Arg(ones, {3})
                  .Arg(ct_, {3})
                  .Ret(dx, {3})
                  .Run(XlaFfiKitRmsNormBwdCpu)
                  .ok());
  EXPECT_EQ(dx, (std::vector<float>{-1, 0, 1}));
}

// y in x's memory and the sum in the residual's; also where threads share a row
// of more than a huge page.
TEST_F(RmsNormHandlerTest, InPlaceIsTheSame) {
  XLA_FFI_Handler* const handlers[] = {XlaFfiKitRmsNormCpu,
                                       XlaFfiKitRmsNormWeightCpu,
                                       XlaFfiKitRmsNormWeightResidualCpu};
  for (const int64_t n : {5, 1 << 21}) {
    for (int count = 1; count <= 3; ++count) {
      std::vector<float> x(n), weight(n), residual(n), y(n), sum(n);
      for (int64_t i = 0; i < n; ++i) {
        x[i] = std::sin(0.1f * i);
        weight[i] = std::cos(0.1f * i);
        residual[i] = 3 * std::cos(0.2f * i);
      }
      const auto run = [&](std::vector<float>& to, std::vector<float>& sum_to) {
        CallFrame frame;
        frame.Arg(x, {n}).Attr("eps", 1e-6).Threads(2);
        if (count > 1) frame.Arg(weight, {n});
        if (count > 2) frame.Arg(residual, {n});
        frame.Ret(to, {n});
        if (count > 2) frame.Ret(sum_to, {n});
        return frame.Run(handlers[count - 1]).ok();
      };
      ASSERT_TRUE(run(y, sum));
      ASSERT_TRUE(run(x, residual));
      EXPECT_TRUE(x == y) << n << ", " << count << " operands";
      if (count > 2) {
        EXPECT_TRUE(residual == sum) << n;
      }
    }
  }
}

TEST_F(RmsNormHandlerTest, ThreadsDoNotChangeTheResult) {
  std::vector<Float16> x(1000 * 1024), y(x.size()), threaded(x.size());
  for (size_t i = 0; i < x.size(); ++i) x[i] = Float16(std::sin(0.1f * i));
  for (const int64_t threads : {1, 4}) {
    ASSERT_TRUE(CallFrame()
                    .Arg(x, {1000, 1024})
                    .Ret(threads == 1 ? y : threaded, {1000, 1024})
                    .Attr("eps", 1e-6)
                    .Threads(threads)
                    .Run(XlaFfiKitRmsNormCpu)
                    .ok());
  }
  for (size_t i = 0; i < x.size(); ++i) {
    ASSERT_EQ(y[i].bits(), threaded[i].bits()) << i;
  }
}

TEST_F(RmsNormHandlerTest, EmptyBatchGivesEmptyResult) {
  EXPECT_TRUE(CallFrame()
                  .Arg(x_, {0, 3})
                  .Ret(y_, {0, 3})
                  .Ret(scale_, {0})
                  .Attr("eps", 0.0)
                  .Run(XlaFfiKitRmsNormFwdCpu)
                  .ok());
  EXPECT_EQ(y_, std::vector<float>(6));
}

TEST_F(RmsNormHandlerTest, WeightAndResidualVariants) {
  std::vector<float> weight = {1, 10, 100}, residual = {1, 1, 1, 1, 1, 1};
  std::vector<float> sum(6), scale(2), h = {4, 5, 1, 6, 13, 1}, want(6);
  for (int i = 0; i < 6; ++i) {
    const float* row = h.data() + i / 3 * 3;
    const float power = row[0] * row[0] + row[1] * row[1] + row[2] * row[2];
    want[i] = h[i] / std::sqrt(power / 3) * weight[i % 3];
  }
  const auto expect_y = [&](const Status& status) {
    ASSERT_TRUE(status.ok()) << status.message;
    for (int i = 0; i < 6; ++i) EXPECT_FLOAT_EQ(y_[i], want[i]) << i;
  };
  expect_y(CallFrame()
               .Arg(x_, {2, 3})
               .Arg(weight, {3})
               .Arg(residual, {2, 3})
               .Ret(y_, {2, 3})
               .Ret(sum, {2, 3})
               .Ret(scale, {2})
               .Attr("eps", 0.0)
               .Run(XlaFfiKitRmsNormWeightResidualFwdCpu));
  EXPECT_EQ(sum, h);
  EXPECT_FLOAT_EQ(scale[0], std::sqrt(3.0f / 42));
  y_.assign(6, 0);
  expect_y(CallFrame()
               .Arg(x_, {2, 3})
               .Arg(weight, {3})
               .Arg(residual, {2, 3})
               .Ret(y_, {2, 3})
               .Ret(sum, {2, 3})
               .Attr("eps", 0.0)
               .Run(XlaFfiKitRmsNormWeightResidualCpu));
  y_.assign(6, 0);
  expect_y(CallFrame()
               .Arg(h, {2, 3})
               .Arg(weight, {3})
               .Ret(y_, {2, 3})
               .Attr("eps", 0.0)
               .Run(XlaFfiKitRmsNormWeightCpu));
  y_.assign(6, 0);
  expect_y(CallFrame()
               .Arg(h, {2, 3})
               .Arg(weight, {3})
               .Ret(y_, {2, 3})
               .Ret(scale, {2})
               .Attr("eps", 0.0)
               .Run(XlaFfiKitRmsNormWeightFwdCpu));
  EXPECT_FLOAT_EQ(scale[0], std::sqrt(3.0f / 42));
}

TEST_F(RmsNormHandlerTest, BackwardVariantsAgree) {
  // Per-batch weights: each row of the batch of two has its own.
  std::vector<float> weight = {1, 2, 3, 4, 5, 6}, ones(6, 1), zeros(6);
  std::vector<float> scale(2), dx(6), dweight(6);
  ASSERT_TRUE(CallFrame()
                  .Arg(x_, {2, 1, 3})
                  .Ret(y_, {2, 1, 3})
                  .Ret(scale, {2, 1})
                  .Attr("eps", 0.5)
                  .Run(XlaFfiKitRmsNormFwdCpu)
                  .ok());
  std::vector<float> g(6), want(6);
  for (int i = 0; i < 6; ++i) g[i] = weight[i] * ct_[i];
  ASSERT_TRUE(CallFrame()
                  .Arg(x_, {2, 1, 3})
                  .Arg(g, {2, 1, 3})
                  .Ret(want, {2, 1, 3})
                  .Attr("eps", 0.5)
                  .Run(XlaFfiKitRmsNormGradCpu)
                  .ok());
  const Status status = CallFrame()
                            .Arg(scale, {2, 1})
                            .Arg(x_, {2, 1, 3})
                            .Arg(weight, {2, 3})
                            .Arg(ct_, {2, 1, 3})
                            .Ret(dx, {2, 1, 3})
                            .Ret(dweight, {2, 3})
                            .Run(XlaFfiKitRmsNormWeightBwdCpu);
  ASSERT_TRUE(status.ok()) << status.message;
  for (int i = 0; i < 6; ++i) {
    EXPECT_NEAR(dx[i], want[i], 1e-5) << i;
    EXPECT_FLOAT_EQ(dweight[i], y_[i] * ct_[i]) << i;
  }
  ASSERT_TRUE(CallFrame()
                  .Arg(scale, {2, 1})
                  .Arg(x_, {2, 1, 3})
                  .Arg(weight, {2, 3})
                  .Arg(ct_, {2, 1, 3})
                  .Arg(ones, {2, 1, 3})
                  .Ret(dx, {2, 1, 3})
                  .Ret(dweight, {2, 3})
                  .Run(XlaFfiKitRmsNormWeightResidualBwdCpu)
                  .ok());
  for (int i = 0; i < 6; ++i) EXPECT_NEAR(dx[i], want[i] + 1, 1e-5) << i;
}

TEST_F(RmsNormHandlerTest, NoRowsGiveAZeroWeightGradient) {
  std::vector<float> weight = {1, 2, 3}, dweight = {7, 7, 7};
  const Status status = CallFrame()
                            .Arg(scale_, {0})
                            .Arg(x_, {0, 3})
                            .Arg(weight, {3})
                            .Arg(ct_, {0, 3})
                            .Ret(y_, {0, 3})
                            .Ret(dweight, {3})
                            .Run(XlaFfiKitRmsNormWeightBwdCpu);
  ASSERT_TRUE(status.ok()) << status.message;
  EXPECT_EQ(dweight, std::vector<float>(3));
}

TEST(RmsNormMetadataTest, HandlersAskForTheFloorOfTheFfi) {
  for (XLA_FFI_Handler* handler :
       {XlaFfiKitRmsNormCpu, XlaFfiKitRmsNormFwdCpu, XlaFfiKitRmsNormWeightCpu,
        XlaFfiKitRmsNormWeightFwdCpu, XlaFfiKitRmsNormWeightResidualCpu,
        XlaFfiKitRmsNormWeightResidualFwdCpu, XlaFfiKitRmsNormGradCpu,
        XlaFfiKitRmsNormBwdCpu, XlaFfiKitRmsNormWeightBwdCpu,
        XlaFfiKitRmsNormWeightResidualBwdCpu}) {
    const testing::Metadata metadata = testing::GetMetadata(handler);
    EXPECT_TRUE(metadata.status.ok()) << metadata.status.message;
    EXPECT_EQ(metadata.major_version, XLA_FFI_API_MAJOR);
    EXPECT_EQ(metadata.minor_version, XLA_FFI_API_MINOR);
    EXPECT_EQ(metadata.traits, 0u);
    EXPECT_EQ(metadata.state_type_id, 0);
  }
}

}  // namespace
}  // namespace xla_ffi_kit
