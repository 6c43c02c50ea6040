#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
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
using Dims = CallFrame::Dims;
using Shapes = std::vector<Dims>;

const Dims kX = {2, 3}, kScale = {2}, kWeight = {3};

class RmsNormHandlerErrorsTest : public ::testing::Test {
 protected:
  // A frame of operands and results of these shapes.
  CallFrame Frame(const Shapes& operands, const Shapes& results) {
    CallFrame frame;
    for (const Dims& dims : operands) frame.Arg(in_, dims);
    for (const Dims& dims : results) frame.Ret(out_, dims);
    return frame;
  }
  CallFrame Forward(const Shapes& operands, const Shapes& results) {
    return Frame(operands, results).Attr("eps", 0.0);
  }

  void ExpectForward(CallFrame frame, const std::string& message) {
    ExpectInvalid(frame.Run(XlaFfiKitRmsNormCpu),
                  "xla_ffi_kit.rms_norm: " + message);
  }
  void ExpectForward(const Shapes& operands, const Shapes& results,
                     const std::string& message) {
    ExpectForward(Forward(operands, results), message);
  }
  void ExpectBackward(CallFrame frame, const std::string& message) {
    ExpectInvalid(frame.Run(XlaFfiKitRmsNormBwdCpu),
                  "xla_ffi_kit.rms_norm_bwd: " + message);
  }
  void ExpectWeightBackward(const Shapes& operands, const Shapes& results,
                            const std::string& message) {
    ExpectInvalid(Frame(operands, results).Run(XlaFfiKitRmsNormWeightBwdCpu),
                  "xla_ffi_kit.rms_norm_weight_bwd: " + message);
  }

  std::vector<float> in_ = {3, 4, 0, 5, 12, 0}, out_ = std::vector<float>(6);
};

TEST_F(RmsNormHandlerErrorsTest, CountsTellOperandsAndResultsApart) {
  const std::string operands =
      "operands: expected x [, weight [, residual]], got ";
  ExpectForward({}, {kX}, operands + "0 of them");
  ExpectForward({kX, kWeight, kX, kX}, {kX, kX}, operands + "4 of them");
  const std::string alone =
      "results: expected y [, scale] without an operand residual, got ";
  ExpectForward({kX}, {}, alone + "0 of them");
  ExpectForward({kX, kWeight}, {kX, kScale, kScale}, alone + "3 of them");
  const std::string with_residual =
      "results: expected y, sum [, scale] with an operand residual, got ";
  ExpectForward({kX, kWeight, kX}, {kX}, with_residual + "1 of them");
  ExpectForward({kX, kWeight, kX}, {kX, kX, kScale, kScale},
                with_residual + "4 of them");
  // A result twice.
  ExpectForward(
      {kX}, {kX, kX},
      "result scale: expected shape (2) like operand x without its last axis, "
      "got shape (2, 3)");
  ExpectForward({kX, kWeight, kX}, {kX, kX, kX},
                "result scale: expected shape (2) like operand x without its "
                "last axis, got shape (2, 3)");
  // A weight where the residual belongs.
  ExpectForward({kX, kX, kWeight}, {kX, kX},
                "operand residual: expected shape (2, 3) like operand x (the "
                "order is x, weight, residual), got shape (3)");
}

TEST_F(RmsNormHandlerErrorsTest, BackwardCountsItsOperands) {
  const std::string plain = "operands: expected x, ct [, scale], got ";
  ExpectBackward(Frame({kX}, {kX}), plain + "1 of them");
  ExpectBackward(Frame({kX, kX, kScale, kWeight}, {kX}), plain + "4 of them");
  ExpectBackward(Frame({kX, kX, kScale}, {kX, kX}),
                 "results: expected dx, got 2 of them");
  const std::string weighted =
      "operands: expected x, ct, scale, weight [, ct_sum], got ";
  ExpectWeightBackward({kX, kX, kScale}, {kX, kWeight}, weighted + "3 of them");
  ExpectWeightBackward({kX, kX, kScale, kWeight, kX, kX}, {kX, kWeight},
                       weighted + "6 of them");
  ExpectWeightBackward({kX, kX, kScale, kWeight}, {kX},
                       "results: expected dx, dweight, got 1 of them");
}

TEST_F(RmsNormHandlerErrorsTest, RefusesWrongShapes) {
  ExpectForward({{}}, {{}, {}}, "operand x: expected rank >= 1, got rank 0");
  ExpectForward({{2, 0}}, {{2, 0}, {2}},
                "operand x: expected a last axis of at least one element, got "
                "shape (2, 0)");
  ExpectForward({kX}, {{3, 2}, kScale},
                "result y: expected shape (2, 3) like operand x, got shape "
                "(3, 2)");
  ExpectForward({kX, kWeight, kX}, {kX, {6}},
                "result sum: expected shape (2, 3) like operand x, got shape "
                "(6)");
  ExpectBackward(Frame({kX, {6}, kScale}, {kX}),
                 "operand ct: expected shape (2, 3) like operand x, got shape "
                 "(6)");
  ExpectBackward(Frame({kX, kX, kScale}, {{2, 2}}),
                 "result dx: expected shape (2, 3) like operand x, got shape "
                 "(2, 2)");
  // A weight where the scale belongs.
  ExpectBackward(Frame({kX, kX, kWeight}, {kX}),
                 "operand scale: expected shape (2) like operand x without its "
                 "last axis, got shape (3)");
  ExpectWeightBackward({kX, kX, kScale, kWeight}, {kX, kX},
                       "result dweight: expected shape (3) like operand "
                       "weight, got shape (2, 3)");
  for (const Dims& fits : Shapes{{3}, {2, 3}, {2, 1, 3}}) {
    EXPECT_TRUE(
        Forward({{2, 1, 3}, fits}, {{2, 1, 3}}).Run(XlaFfiKitRmsNormCpu).ok());
  }
  for (const auto& [weight, text] : std::vector<std::pair<Dims, std::string>>{
           {{}, "()"},
           {{2}, "(2)"},
           {{1, 3}, "(1, 3)"},
           {{2, 1, 1, 3}, "(2, 1, 1, 3)"}}) {
    ExpectForward({{2, 1, 3}, weight}, {{2, 1, 3}},
                  "operand weight: expected the last axis, or the first axes "
                  "and the last, of operand x, shape (2, 1, 3), got shape " +
                      text);
  }
}

TEST_F(RmsNormHandlerErrorsTest, RefusesWrongDtypes) {
  std::vector<int32_t> ints(6);
  std::vector<double> doubles(6);
  ExpectForward(CallFrame().Arg(ints, kX).Ret(ints, kX).Attr("eps", 0.0),
                "operand x: expected one of the dtypes f16, bf16, f32, f64, "
                "c64, c128, got s32");
  ExpectForward(CallFrame().Arg(in_, kX).Ret(doubles, kX).Attr("eps", 0.0),
                "result y: expected dtype f32 like operand x, got dtype f64");
  ExpectForward(Forward({kX}, {kX}).Arg(doubles, kWeight),
                "operand weight: expected dtype f32 like operand x, got dtype "
                "f64");
  ExpectBackward(Frame({kX, kX}, {kX}).Arg(doubles, kScale),
                 "operand scale: expected dtype f32 to accumulate x's f32, got "
                 "dtype f64");
}

TEST_F(RmsNormHandlerErrorsTest, RefusesWrongEps) {
  const auto frame = [&] { return Frame({kX}, {kX}); };
  const std::string names = "attributes: expected {eps}, got ";
  ExpectForward(frame(), names + "{}");
  ExpectForward(frame().Attr("epsilon", 1e-6), names + "{epsilon}");
  ExpectForward(frame().Attr("eps", 1e-6).Attr("mode", "fast"),
                names + "{eps, mode}");
  const std::string scalar =
      "attribute eps: expected a scalar f32 or f64 (in Python, "
      "np.float64(value)), got another type";
  ExpectForward(frame().Attr("eps", int64_t{1}), scalar);
  ExpectForward(frame().Attr("eps", "1e-6"), scalar);
  const std::string value = "attribute eps: expected a finite value >= 0, got ";
  constexpr double kInf = std::numeric_limits<double>::infinity();
  ExpectForward(frame().Attr("eps", -1e-6), value + "-1e-06");
  ExpectForward(frame().Attr("eps", -0.5f), value + "-0.5");
  ExpectForward(frame().Attr("eps", kInf), value + "inf");
  ExpectForward(frame().Attr("eps", std::nan("")), value + "nan");
  // The backward has eps exactly without a scale.
  const std::string without =
      "attributes: expected {eps} without an operand scale, got ";
  ExpectBackward(Frame({kX, kX}, {kX}), without + "{}");
  ExpectBackward(Forward({kX, kX}, {kX}).Attr("mode", "fast"),
                 without + "{eps, mode}");
  ExpectBackward(Forward({kX, kX, kScale}, {kX}),
                 "attributes: expected none with an operand scale, got {eps}");
}

TEST_F(RmsNormHandlerErrorsTest, RefusesBadFrames) {
  const auto forward = [&](const Shapes& operands, const Shapes& results,
                           const std::vector<std::string>& none) {
    ExpectRefusesBadFrames(XlaFfiKitRmsNormCpu, Forward(operands, results),
                           true, none);
  };
  // x as a weight of its own is fine, as is a call without a weight or scale.
  forward({kX}, {kX}, {"one operand more"});
  forward({kX}, {kX, kScale}, {"one operand more", "one result fewer"});
  forward({kX, kWeight}, {kX}, {"one operand fewer"});
  forward({kX, kWeight}, {kX, kScale},
          {"one operand fewer", "one result fewer"});
  forward({kX, kWeight, kX}, {kX, kX}, {});
  forward({kX, kWeight, kX}, {kX, kX, kScale}, {"one result fewer"});
  ExpectRefusesBadFrames(XlaFfiKitRmsNormBwdCpu, Forward({kX, kX}, {kX}));
  ExpectRefusesBadFrames(XlaFfiKitRmsNormBwdCpu, Frame({kX, kX, kScale}, {kX}));
  ExpectRefusesBadFrames(XlaFfiKitRmsNormWeightBwdCpu,
                         Frame({kX, kX, kScale, kWeight}, {kX, kWeight}));
  ExpectRefusesBadFrames(XlaFfiKitRmsNormWeightBwdCpu,
                         Frame({kX, kX, kScale, kWeight, kX}, {kX, kWeight}),
                         true, {"one operand fewer"});
}

TEST_F(RmsNormHandlerErrorsTest, RefusesNullDataOfElements) {
  testing::ExpectRefusesNullData(
      XlaFfiKitRmsNormCpu, Forward({kX, kWeight, kX}, {kX, kX, kScale}),
      "xla_ffi_kit.rms_norm",
      {"operand x", "operand weight", "operand residual", "result y",
       "result sum", "result scale"});
  testing::ExpectRefusesNullData(
      XlaFfiKitRmsNormWeightBwdCpu,
      Frame({kX, kX, kScale, kWeight, kX}, {kX, kWeight}),
      "xla_ffi_kit.rms_norm_weight_bwd",
      {"operand x", "operand ct", "operand scale", "operand weight",
       "operand ct_sum", "result dx", "result dweight"});
}

}  // namespace
}  // namespace xla_ffi_kit
