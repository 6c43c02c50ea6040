// The CUDA handlers with a weight, as far as a machine without a GPU can run
// them.

#include <string>
#include <vector>

#include "cuda_runtime.h"
#include "gtest/gtest.h"
#include "xla_ffi/ops/rms_norm/rms_norm_handler.h"
#include "xla_ffi/testing/bad_frames.h"
#include "xla_ffi/testing/call_frame.h"

namespace xla_ffi_kit {
namespace {

using testing::CallFrame;
using testing::ExpectInvalid;
using testing::Status;

class RmsNormWeightCudaHandlerTest : public ::testing::Test {
 protected:
  using Dims = CallFrame::Dims;

  CallFrame Forward(const Dims& x = {2, 3}, const Dims& weight = {3}) {
    return CallFrame()
        .Arg(x_, x)
        .Arg(weight_, weight)
        .Ret(y_, x)
        .Attr("eps", 0.0);
  }
  CallFrame ForwardResidual(const Dims& residual = {2, 3},
                            const Dims& sum = {2, 3}) {
    return CallFrame()
        .Arg(x_, {2, 3})
        .Arg(weight_, {3})
        .Arg(other_, residual)
        .Ret(y_, {2, 3})
        .Ret(sum_, sum)
        .Attr("eps", 0.0);
  }
  CallFrame Backward(const Dims& weight = {3}, const Dims& dweight = {3},
                     int64_t rows = 2) {
    return CallFrame()
        .Arg(scale_, {rows})
        .Arg(x_, {rows, 3})
        .Arg(weight_, weight)
        .Arg(ct_, {rows, 3})
        .Ret(y_, {rows, 3})
        .Ret(dweight_, dweight);
  }
  CallFrame BackwardResidual(const Dims& ct_sum = {2, 3}) {
    CallFrame frame = Backward();
    return frame.Arg(other_, ct_sum);
  }

  std::vector<float> x_ = std::vector<float>(6), y_ = x_, ct_ = x_, other_ = x_,
                     sum_ = x_, weight_ = x_, dweight_ = x_, scale_ = x_;
};

TEST_F(RmsNormWeightCudaHandlerTest, RefusesWrongShapesBeforeAnyCudaCall) {
  ExpectInvalid(Forward({2, 3}, {2}).Run(XlaFfiKitRmsNormWeightCuda),
                "xla_ffi_kit.rms_norm_weight: operand weight: expected the "
                "last axis, or the first axes and the last, of operand x, "
                "shape (2, 3), got shape (2)");
  ExpectInvalid(
      Forward().Ret(scale_, {3}).Run(XlaFfiKitRmsNormWeightFwdCuda),
      "xla_ffi_kit.rms_norm_weight_fwd: result scale: expected shape (2) like "
      "operand x without its last axis, got shape (3)");
  ExpectInvalid(
      ForwardResidual({3, 2}).Run(XlaFfiKitRmsNormWeightResidualCuda),
      "xla_ffi_kit.rms_norm_weight_residual: operand residual: expected shape "
      "(2, 3) like operand x, got shape (3, 2)");
  ExpectInvalid(ForwardResidual({2, 3}, {6})
                    .Ret(scale_, {2})
                    .Run(XlaFfiKitRmsNormWeightResidualFwdCuda),
                "xla_ffi_kit.rms_norm_weight_residual_fwd: result sum: "
                "expected shape (2, 3) like operand x, got shape (6)");
  ExpectInvalid(Backward({3}, {2, 3}).Run(XlaFfiKitRmsNormWeightBwdCuda),
                "xla_ffi_kit.rms_norm_weight_bwd: result dweight: expected "
                "shape (3) like operand weight, got shape (2, 3)");
  ExpectInvalid(
      BackwardResidual({6}).Run(XlaFfiKitRmsNormWeightResidualBwdCuda),
      "xla_ffi_kit.rms_norm_weight_residual_bwd: operand ct_sum: expected "
      "shape (2, 3) like operand x, got shape (6)");
}

TEST_F(RmsNormWeightCudaHandlerTest, RefusesBadFrames) {
  const auto expect = [](XLA_FFI_Handler* handler, const CallFrame& good) {
    testing::ExpectRefusesBadFrames(handler, good, /*can_run=*/false);
  };
  expect(XlaFfiKitRmsNormWeightCuda, Forward());
  expect(XlaFfiKitRmsNormWeightFwdCuda, Forward().Ret(scale_, {2}));
  expect(XlaFfiKitRmsNormWeightResidualCuda, ForwardResidual());
  expect(XlaFfiKitRmsNormWeightResidualFwdCuda,
         ForwardResidual().Ret(scale_, {2}));
  expect(XlaFfiKitRmsNormWeightBwdCuda, Backward());
  expect(XlaFfiKitRmsNormWeightResidualBwdCuda, BackwardResidual());
}

TEST_F(RmsNormWeightCudaHandlerTest, EmptyBatchLaunchesNothing) {
  EXPECT_TRUE(Forward({0, 3}).Run(XlaFfiKitRmsNormWeightCuda).ok());
  // Not one weight either, and so no gradient to set to zero.
  EXPECT_TRUE(
      Backward({0, 3}, {0, 3}, 0).Run(XlaFfiKitRmsNormWeightBwdCuda).ok());
}

TEST_F(RmsNormWeightCudaHandlerTest, WithoutAGpuTheErrorNamesTheCause) {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) == cudaSuccess && devices > 0) {
    GTEST_SKIP() << "there is a GPU, and these buffers are not on it";
  }
  for (const Status& status :
       {Forward().Run(XlaFfiKitRmsNormWeightCuda),
        ForwardResidual().Run(XlaFfiKitRmsNormWeightResidualCuda),
        Backward().Scratch(1 << 20).Run(XlaFfiKitRmsNormWeightBwdCuda),
        // The gradient of a weight without rows is zero: that is to be written.
        Backward({3}, {3}, 0)
            .Scratch(1 << 20)
            .Run(XlaFfiKitRmsNormWeightBwdCuda)}) {
    EXPECT_EQ(status.code, XLA_FFI_Error_Code_FAILED_PRECONDITION);
    EXPECT_NE(status.message.find(": launching the CUDA kernel: "),
              std::string::npos)
        << status.message;
  }
}

TEST_F(RmsNormWeightCudaHandlerTest, WhatNeedsNoScratchMemoryMayBeCaptured) {
  const auto traits = [](XLA_FFI_Handler* handler) {
    const testing::Metadata metadata = testing::GetMetadata(handler);
    EXPECT_TRUE(metadata.status.ok()) << metadata.status.message;
    EXPECT_EQ(metadata.minor_version, XLA_FFI_API_MINOR);
    return metadata.traits;
  };
  constexpr XLA_FFI_Handler_Traits kCompatible =
      XLA_FFI_HANDLER_TRAITS_COMMAND_BUFFER_COMPATIBLE;
  EXPECT_EQ(traits(XlaFfiKitRmsNormWeightCuda), kCompatible);
  EXPECT_EQ(traits(XlaFfiKitRmsNormWeightFwdCuda), kCompatible);
  EXPECT_EQ(traits(XlaFfiKitRmsNormWeightResidualCuda), kCompatible);
  EXPECT_EQ(traits(XlaFfiKitRmsNormWeightResidualFwdCuda), kCompatible);
  EXPECT_EQ(traits(XlaFfiKitRmsNormWeightBwdCuda), 0u);
  EXPECT_EQ(traits(XlaFfiKitRmsNormWeightResidualBwdCuda), 0u);
}

}  // namespace
}  // namespace xla_ffi_kit
