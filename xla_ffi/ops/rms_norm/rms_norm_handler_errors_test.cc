#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "xla_ffi/ops/rms_norm/rms_norm_handler.h"
#include "xla_ffi/testing/bad_frames.h"
#include "xla_ffi/testing/call_frame.h"

namespace xla_ffi_kit {
namespace {

using testing::CallFrame;
using testing::ExpectInvalid;
using testing::ExpectRefusesBadFrames;

class RmsNormHandlerErrorsTest : public ::testing::Test {
 protected:
  std::vector<float> x_ = {3, 4, 0, 5, 12, 0}, y_ = std::vector<float>(6);
  std::vector<float> ct_ = {1, 2, 3, 4, 5, 6}, scale_ = {1, 2, 3, 4, 5, 6};
};

TEST_F(RmsNormHandlerErrorsTest, RefusesWrongShapes) {
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

TEST_F(RmsNormHandlerErrorsTest, RefusesWrongDtypes) {
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

TEST_F(RmsNormHandlerErrorsTest, BackwardRefusesOperandsThatDoNotFit) {
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

TEST_F(RmsNormHandlerErrorsTest, RefusesWrongEps) {
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

TEST_F(RmsNormHandlerErrorsTest, RefusesBadFrames) {
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

TEST_F(RmsNormHandlerErrorsTest, RefusesWeightsThatDoNotFit) {
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

TEST_F(RmsNormHandlerErrorsTest, RefusesNullDataOfElements) {
  std::vector<float> w(3), scale(2);
  testing::ExpectRefusesNullData(
      XlaFfiKitRmsNormWeightResidualFwdCpu,
      CallFrame()
          .Arg(x_, {2, 3})
          .Arg(w, {3})
          .Arg(x_, {2, 3})
          .Ret(y_, {2, 3})
          .Ret(y_, {2, 3})
          .Ret(scale, {2})
          .Attr("eps", 1.0),
      "xla_ffi_kit.rms_norm_weight_residual_fwd",
      {"operand x", "operand weight", "operand residual", "result y",
       "result sum", "result scale"});
  testing::ExpectRefusesNullData(
      XlaFfiKitRmsNormWeightResidualBwdCpu,
      CallFrame()
          .Arg(scale, {2})
          .Arg(x_, {2, 3})
          .Arg(w, {3})
          .Arg(ct_, {2, 3})
          .Arg(ct_, {2, 3})
          .Ret(y_, {2, 3})
          .Ret(w, {3}),
      "xla_ffi_kit.rms_norm_weight_residual_bwd",
      {"operand scale", "operand x", "operand weight", "operand ct",
       "operand ct_sum", "result dx", "result dweight"});
}

}  // namespace
}  // namespace xla_ffi_kit
