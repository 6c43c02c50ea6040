#include "xla_ffi/ops/rms_norm/rms_norm_handler.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "xla_ffi/core/half.h"
#include "xla_ffi/testing/call_frame.h"

namespace xla_ffi_kit {
namespace {

using testing::CallFrame;
using Dims = CallFrame::Dims;
using Floats = std::vector<float>;

// An operand or a result.
struct Array {
  Floats& values;
  Dims dims;
};

CallFrame Frame(const std::vector<Array>& operands,
                const std::vector<Array>& results) {
  CallFrame frame;
  for (const Array& array : operands) frame.Arg(array.values, array.dims);
  for (const Array& array : results) frame.Ret(array.values, array.dims);
  return frame;
}

class RmsNormHandlerTest : public ::testing::Test {
 protected:
  static void Run(XLA_FFI_Handler* handler, CallFrame frame) {
    const testing::Status status = frame.Run(handler);
    EXPECT_TRUE(status.ok()) << status.message;
  }
  static void Forward(const std::vector<Array>& operands,
                      const std::vector<Array>& results, double eps = 0) {
    Run(XlaFfiKitRmsNormCpu, Frame(operands, results).Attr("eps", eps));
  }

  Floats x_ = {3, 4, 0, 5, 12, 0}, y_ = Floats(6);
  Floats ct_ = {1, 2, 3, 4, 5, 6}, scale_ = {7, 7};
};

TEST_F(RmsNormHandlerTest, ForwardNormalizesEachRow) {
  Forward({{x_, {2, 1, 3}}}, {{y_, {2, 1, 3}}, {scale_, {2, 1}}});
  const float a = std::sqrt(3.0f) / 5, b = std::sqrt(3.0f) / 13;
  EXPECT_FLOAT_EQ(scale_[0], a);
  EXPECT_FLOAT_EQ(scale_[1], b);
  EXPECT_FLOAT_EQ(y_[1], 4 * a);
  EXPECT_FLOAT_EQ(y_[4], 12 * b);
  Floats alone(6);
  Forward({{x_, {2, 3}}}, {{alone, {2, 3}}});
  EXPECT_EQ(alone, y_);
}

TEST_F(RmsNormHandlerTest, EpsIsAFloatOrADouble) {
  const CallFrame frame = Frame({{x_, {2, 3}}}, {{y_, {2, 3}}});
  Run(XlaFfiKitRmsNormCpu, CallFrame(frame).Attr("eps", 0.25));
  const Floats want = y_;
  EXPECT_FLOAT_EQ(want[0], 3 / std::sqrt(25 / 3.0f + 0.25f));
  std::fill(y_.begin(), y_.end(), 0);
  Run(XlaFfiKitRmsNormCpu, CallFrame(frame).Attr("eps", 0.25f));
  EXPECT_EQ(y_, want);
  // The backward without a scale reads it too.
  const CallFrame backward =
      Frame({{x_, {2, 3}}, {ct_, {2, 3}}}, {{y_, {2, 3}}});
  Run(XlaFfiKitRmsNormBwdCpu, CallFrame(backward).Attr("eps", 0.25));
  const Floats dx = y_;
  std::fill(y_.begin(), y_.end(), 0);
  Run(XlaFfiKitRmsNormBwdCpu, CallFrame(backward).Attr("eps", 0.25f));
  EXPECT_EQ(y_, dx);
}

TEST_F(RmsNormHandlerTest, WeightAndResidualAreOptional) {
  const Dims rows = {2, 3};
  Floats weight = {1, 10, 100}, residual(6, 1), h = {4, 5, 1, 6, 13, 1};
  Floats sum(6), want(6);
  for (int i = 0; i < 6; ++i) {
    const float* row = h.data() + i / 3 * 3;
    const float power = row[0] * row[0] + row[1] * row[1] + row[2] * row[2];
    want[i] = h[i] / std::sqrt(power / 3) * weight[i % 3];
  }
  for (const bool has_residual : {false, true}) {
    for (const bool has_scale : {false, true}) {
      y_.assign(6, 0);
      std::vector<Array> operands = {{has_residual ? x_ : h, rows},
                                     {weight, {3}}};
      std::vector<Array> results = {{y_, rows}};
      if (has_residual) operands.push_back({residual, rows});
      if (has_residual) results.push_back({sum, rows});
      if (has_scale) results.push_back({scale_, {2}});
      Forward(operands, results);
      for (int i = 0; i < 6; ++i) EXPECT_FLOAT_EQ(y_[i], want[i]) << i;
    }
    EXPECT_FLOAT_EQ(scale_[0], std::sqrt(3.0f / 42));
    scale_ = {7, 7};
  }
  EXPECT_EQ(sum, h);
}

// y in x's memory and the sum in the residual's; also where threads share a row
// of more than a huge page.
TEST_F(RmsNormHandlerTest, InPlaceIsTheSame) {
  for (const int64_t n : {5, 1 << 21}) {
    for (int count = 1; count <= 3; ++count) {
      Floats x(n), weight(n), residual(n), y(n), sum(n);
      for (int64_t i = 0; i < n; ++i) {
        x[i] = std::sin(0.1f * i);
        weight[i] = std::cos(0.1f * i);
        residual[i] = 3 * std::cos(0.2f * i);
      }
      const auto run = [&](Floats& to, Floats& sum_to) {
        std::vector<Array> operands = {{x, {n}}}, results = {{to, {n}}};
        if (count > 1) operands.push_back({weight, {n}});
        if (count > 2) operands.push_back({residual, {n}});
        if (count > 2) results.push_back({sum_to, {n}});
        Run(XlaFfiKitRmsNormCpu,
            Frame(operands, results).Attr("eps", 1e-6).Threads(2));
      };
      run(y, sum);
      run(x, residual);
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
    Run(XlaFfiKitRmsNormCpu, CallFrame()
                                 .Arg(x, {1000, 1024})
                                 .Ret(threads == 1 ? y : threaded, {1000, 1024})
                                 .Attr("eps", 1e-6)
                                 .Threads(threads));
  }
  for (size_t i = 0; i < x.size(); ++i) {
    ASSERT_EQ(y[i].bits(), threaded[i].bits()) << i;
  }
}

TEST_F(RmsNormHandlerTest, EmptyBatchGivesEmptyResult) {
  Forward({{x_, {0, 3}}}, {{y_, {0, 3}}, {scale_, {0}}});
  EXPECT_EQ(y_, Floats(6));
  Floats weight = {1, 2, 3}, dweight = {7, 7, 7};
  Run(XlaFfiKitRmsNormWeightBwdCpu,
      Frame({{x_, {0, 3}}, {ct_, {0, 3}}, {scale_, {0}}, {weight, {3}}},
            {{y_, {0, 3}}, {dweight, {3}}}));
  EXPECT_EQ(dweight, Floats(3));
}

TEST_F(RmsNormHandlerTest, BackwardOfAConstantRowIsOrthogonalToIt) {
  Floats ones = {1, 1, 1}, one = {1}, dx(3);
  Run(XlaFfiKitRmsNormBwdCpu,
      Frame({{ones, {3}}, {ct_, {3}}, {one, {}}}, {{dx, {3}}}));
  EXPECT_EQ(dx, (Floats{-1, 0, 1}));
}

TEST_F(RmsNormHandlerTest, BackwardVariantsAgree) {
  // Each row of the batch of two has a weight of its own.
  const Dims rows = {2, 1, 3};
  Floats weight = {1, 2, 3, 4, 5, 6}, ones(6, 1), g(6), want(6);
  Forward({{x_, rows}}, {{y_, rows}, {scale_, {2, 1}}}, 0.5);
  for (int i = 0; i < 6; ++i) g[i] = weight[i] * ct_[i];
  Run(XlaFfiKitRmsNormBwdCpu,
      Frame({{x_, rows}, {g, rows}}, {{want, rows}}).Attr("eps", 0.5));
  for (const bool has_ct_sum : {false, true}) {
    Floats dx(6), dweight(6);
    std::vector<Array> operands = {
        {x_, rows}, {ct_, rows}, {scale_, {2, 1}}, {weight, {2, 3}}};
    if (has_ct_sum) operands.push_back({ones, rows});
    Run(XlaFfiKitRmsNormWeightBwdCpu,
        Frame(operands, {{dx, rows}, {dweight, {2, 3}}}));
    for (int i = 0; i < 6; ++i) {
      EXPECT_NEAR(dx[i], want[i] + (has_ct_sum ? 1 : 0), 1e-5) << i;
      EXPECT_FLOAT_EQ(dweight[i], y_[i] * ct_[i]) << i;
    }
  }
}

TEST(RmsNormMetadataTest, HandlersAskForTheFloorOfTheFfi) {
  for (XLA_FFI_Handler* handler : {XlaFfiKitRmsNormCpu, XlaFfiKitRmsNormBwdCpu,
                                   XlaFfiKitRmsNormWeightBwdCpu}) {
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
