#include "xla_ffi/ops/rms_norm/rms_norm_handler.h"

#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "xla_ffi/core/half.h"
#include "xla_ffi/testing/bad_frames.h"
#include "xla_ffi/testing/call_frame.h"

namespace xla_ffi_kit {
namespace {

using testing::CallFrame;
using testing::ExpectInvalid;
using testing::ExpectRefusesBadFrames;
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

TEST_F(RmsNormHandlerTest, RefusesWrongShapes) {
  const auto forward = [&](CallFrame::Dims x, CallFrame::Dims y,
                           CallFrame::Dims scale) {
    return CallFrame()
        .Arg(x_, x)
        .Ret(y_, y)
        .Ret(scale_, scale)
        .Attr("eps", 0.0)
        .Run(XlaFfiKitRmsNormFwdCpu);
  };
  ExpectInvalid(forward({}, {}, {}),
                "xla_ffi_kit.rms_norm_fwd: operand x: expected rank >= 1, got "
                "rank 0");
  ExpectInvalid(forward({2, 0}, {2, 0}, {2}),
                "xla_ffi_kit.rms_norm_fwd: operand x: expected a last axis of "
                "at least one element, got shape (2, 0)");
  ExpectInvalid(forward({2, 3}, {3, 2}, {2}),
                "xla_ffi_kit.rms_norm_fwd: result y: expected shape (2, 3) "
                "like operand x, got shape (3, 2)");
  ExpectInvalid(forward({2, 3}, {2, 3}, {3}),
                "xla_ffi_kit.rms_norm_fwd: result scale: expected shape (2) "
                "like operand x without its last axis, got shape (3)");
}

TEST_F(RmsNormHandlerTest, RefusesWrongDtypes) {
  std::vector<int32_t> ints(6);
  std::vector<double> doubles(6);
  ExpectInvalid(CallFrame()
                    .Arg(ints, {2, 3})
                    .Ret(ints, {2, 3})
                    .Attr("eps", 0.0)
                    .Run(XlaFfiKitRmsNormCpu),
                "xla_ffi_kit.rms_norm: operand x: expected one of the dtypes "
                "f16, bf16, f32, f64, c64, c128, got s32");
  ExpectInvalid(CallFrame()
                    .Arg(x_, {2, 3})
                    .Ret(doubles, {2, 3})
                    .Attr("eps", 0.0)
                    .Run(XlaFfiKitRmsNormCpu),
                "xla_ffi_kit.rms_norm: result y: expected dtype f32 like "
                "operand x, got dtype f64");
  ExpectInvalid(CallFrame()
                    .Arg(doubles, {2})
                    .Arg(x_, {2, 3})
                    .Arg(ct_, {2, 3})
                    .Ret(y_, {2, 3})
                    .Run(XlaFfiKitRmsNormBwdCpu),
                "xla_ffi_kit.rms_norm_bwd: operand scale: expected dtype f32 "
                "to accumulate x's f32, got dtype f64");
}

TEST_F(RmsNormHandlerTest, BackwardRefusesOperandsThatDoNotFit) {
  ExpectInvalid(CallFrame()
                    .Arg(scale_, {2})
                    .Arg(x_, {2, 3})
                    .Arg(ct_, {6})
                    .Ret(y_, {2, 3})
                    .Run(XlaFfiKitRmsNormBwdCpu),
                "xla_ffi_kit.rms_norm_bwd: operand ct: expected shape (2, 3) "
                "like operand x, got shape (6)");
  ExpectInvalid(CallFrame()
                    .Arg(scale_, {2})
                    .Arg(x_, {2, 3})
                    .Arg(ct_, {2, 3})
                    .Ret(y_, {2, 2})
                    .Run(XlaFfiKitRmsNormBwdCpu),
                "xla_ffi_kit.rms_norm_bwd: result dx: expected shape (2, 3) "
                "like operand x, got shape (2, 2)");
}

TEST_F(RmsNormHandlerTest, RefusesWrongEps) {
  const auto forward = [&] {
    return CallFrame().Arg(x_, {2, 3}).Ret(y_, {2, 3});
  };
  const std::string where = "xla_ffi_kit.rms_norm: attribute eps: expected ";
  ExpectInvalid(forward().Run(XlaFfiKitRmsNormCpu),
                where + "it as the only attribute, got attributes {}");
  ExpectInvalid(forward().Attr("epsilon", 1e-6).Run(XlaFfiKitRmsNormCpu),
                where + "it as the only attribute, got attributes {epsilon}");
  ExpectInvalid(
      forward().Attr("eps", 1e-6).Attr("mode", "fast").Run(XlaFfiKitRmsNormCpu),
      where + "it as the only attribute, got attributes {eps, mode}");
  const std::string scalar = "a scalar f64 (in Python, np.float64(value)), got";
  ExpectInvalid(forward().Attr("eps", 1e-6f).Run(XlaFfiKitRmsNormCpu),
                where + scalar + " another type");
  ExpectInvalid(forward().Attr("eps", "1e-6").Run(XlaFfiKitRmsNormCpu),
                where + scalar + " another type");
  ExpectInvalid(forward().Attr("eps", -1e-6).Run(XlaFfiKitRmsNormCpu),
                where + "a finite value >= 0, got -1e-06");
  constexpr double kInf = std::numeric_limits<double>::infinity();
  ExpectInvalid(forward().Attr("eps", kInf).Run(XlaFfiKitRmsNormCpu),
                where + "a finite value >= 0, got inf");
  ExpectInvalid(forward().Attr("eps", std::nan("")).Run(XlaFfiKitRmsNormCpu),
                where + "a finite value >= 0, got nan");
}

TEST_F(RmsNormHandlerTest, RefusesBadFrames) {
  std::vector<float> weight = {1, 10, 100}, sum(6), scale(2), dw(3);
  const CallFrame x = CallFrame().Arg(x_, {2, 3});
  const auto forward = [&](bool has_weight, bool has_residual, bool has_scale) {
    CallFrame frame = x;
    if (has_weight) frame.Arg(weight, {3});
    if (has_residual) frame.Arg(ct_, {2, 3});
    frame.Ret(y_, {2, 3});
    if (has_residual) frame.Ret(sum, {2, 3});
    if (has_scale) frame.Ret(scale, {2});
    return frame.Attr("eps", 1e-6);
  };
  ExpectRefusesBadFrames(XlaFfiKitRmsNormCpu, forward(false, false, false));
  ExpectRefusesBadFrames(XlaFfiKitRmsNormFwdCpu, forward(false, false, true));
  ExpectRefusesBadFrames(XlaFfiKitRmsNormWeightCpu,
                         forward(true, false, false));
  ExpectRefusesBadFrames(XlaFfiKitRmsNormWeightFwdCpu,
                         forward(true, false, true));
  ExpectRefusesBadFrames(XlaFfiKitRmsNormWeightResidualCpu,
                         forward(true, true, false));
  ExpectRefusesBadFrames(XlaFfiKitRmsNormWeightResidualFwdCpu,
                         forward(true, true, true));
  CallFrame grad = x;
  grad.Arg(ct_, {2, 3}).Ret(y_, {2, 3}).Attr("eps", 1e-6);
  ExpectRefusesBadFrames(XlaFfiKitRmsNormGradCpu, grad);
  const auto backward = [&](bool has_weight, bool has_ct_sum) {
    CallFrame frame = CallFrame().Arg(scale_, {2}).Arg(x_, {2, 3});
    if (has_weight) frame.Arg(weight, {3});
    frame.Arg(ct_, {2, 3});
    if (has_ct_sum) frame.Arg(ct_, {2, 3});
    frame.Ret(y_, {2, 3});
    if (has_weight) frame.Ret(dw, {3});
    return frame;
  };
  ExpectRefusesBadFrames(XlaFfiKitRmsNormBwdCpu, backward(false, false));
  ExpectRefusesBadFrames(XlaFfiKitRmsNormWeightBwdCpu, backward(true, false));
  ExpectRefusesBadFrames(XlaFfiKitRmsNormWeightResidualBwdCpu,
                         backward(true, true));
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

TEST_F(RmsNormHandlerTest, RefusesWeightsThatDoNotFit) {
  std::vector<float> weight(6);
  std::vector<double> doubles(3);
  const auto run = [&](CallFrame::Dims dims) {
    return CallFrame()
        .Arg(x_, {2, 1, 3})
        .Arg(weight, dims)
        .Ret(y_, {2, 1, 3})
        .Attr("eps", 0.0)
        .Run(XlaFfiKitRmsNormWeightCpu);
  };
  for (const CallFrame::Dims& fits : {CallFrame::Dims{3}, {2, 3}, {2, 1, 3}}) {
    EXPECT_TRUE(run(fits).ok());
  }
  const std::string where =
      "xla_ffi_kit.rms_norm_weight: operand weight: expected ";
  const std::string axes =
      "the last axis, or the first axes and the last, of operand x, shape "
      "(2, 1, 3), got shape ";
  ExpectInvalid(run({}), where + axes + "()");
  ExpectInvalid(run({2}), where + axes + "(2)");
  ExpectInvalid(run({1, 3}), where + axes + "(1, 3)");
  ExpectInvalid(run({2, 1, 1, 3}), where + axes + "(2, 1, 1, 3)");
  ExpectInvalid(CallFrame()
                    .Arg(x_, {2, 3})
                    .Arg(doubles, {3})
                    .Ret(y_, {2, 3})
                    .Attr("eps", 0.0)
                    .Run(XlaFfiKitRmsNormWeightCpu),
                where + "dtype f32 like operand x, got dtype f64");
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

TEST(RmsNormNullTest, NullDataOfElementsIsRefused) {
  std::vector<float> x(6), w(3), scale(2);
  const CallFrame forward = CallFrame()
                                .Arg(x, {2, 3})
                                .Arg(w, {3})
                                .Arg(x, {2, 3})
                                .Ret(x, {2, 3})
                                .Ret(x, {2, 3})
                                .Ret(scale, {2})
                                .Attr("eps", 1.0);
  const CallFrame backward = CallFrame()
                                 .Arg(scale, {2})
                                 .Arg(x, {2, 3})
                                 .Arg(w, {3})
                                 .Arg(x, {2, 3})
                                 .Arg(x, {2, 3})
                                 .Ret(x, {2, 3})
                                 .Ret(w, {3});
  const auto expect_null_refused = [](XLA_FFI_Handler* handler,
                                      const CallFrame& right) {
    CallFrame frame = right;
    ASSERT_EQ(frame.Run(handler).message, "");
    for (auto* buffers : {&frame.args(), &frame.rets()}) {
      for (CallFrame::Buffer& buffer : *buffers) {
        void* const data = buffer.data;
        buffer.data = nullptr;
        EXPECT_THAT(frame.Run(handler).message,
                    ::testing::EndsWith(", got null"));
        buffer.data = data;
      }
    }
  };
  expect_null_refused(XlaFfiKitRmsNormWeightResidualFwdCpu, forward);
  expect_null_refused(XlaFfiKitRmsNormWeightResidualBwdCpu, backward);
}

}  // namespace
}  // namespace xla_ffi_kit
