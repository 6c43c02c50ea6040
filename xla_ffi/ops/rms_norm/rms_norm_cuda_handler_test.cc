// The CUDA handlers as far as a machine without a GPU can run them; what they
// share with the CPU's, all checks, is in rms_norm_handler_errors_test.cc.

#include <cstdint>
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
using testing::ExpectRefusesBadFrames;
using testing::Status;
using Dims = CallFrame::Dims;

class RmsNormCudaHandlerTest : public ::testing::Test {
 protected:
  CallFrame Frame(const std::vector<Dims>& operands,
                  const std::vector<Dims>& results) {
    CallFrame frame;
    for (const Dims& dims : operands) frame.Arg(in_, dims);
    for (const Dims& dims : results) frame.Ret(out_, dims);
    return frame;
  }
  CallFrame Forward(const Dims& x = {2, 3}) {
    return Frame({x, {3}, x}, {x, x}).Attr("eps", 1e-6);
  }
  CallFrame Backward() { return Frame({{2, 3}, {2, 3}, {2}}, {{2, 3}}); }
  CallFrame WeightBackward(int64_t rows = 2, const Dims& weight = {3}) {
    CallFrame frame =
        Frame({{rows, 3}, {rows, 3}, {rows}, weight}, {{rows, 3}, weight});
    frame.Ret(workspace_, {static_cast<int64_t>(workspace_.size())});
    return frame;
  }

  std::vector<float> in_ = std::vector<float>(6), out_ = in_;
  std::vector<uint8_t> workspace_ = std::vector<uint8_t>(12);
};

TEST_F(RmsNormCudaHandlerTest, RefusesBadFramesBeforeAnyCudaCall) {
  ExpectRefusesBadFrames(XlaFfiKitRmsNormCuda, Forward(), /*can_run=*/false);
  ExpectRefusesBadFrames(XlaFfiKitRmsNormBwdCuda, Backward(),
                         /*can_run=*/false);
  ExpectRefusesBadFrames(XlaFfiKitRmsNormWeightBwdCuda, WeightBackward(),
                         /*can_run=*/false, {"one operand more"});
}

TEST_F(RmsNormCudaHandlerTest, EmptyBatchLaunchesNothing) {
  EXPECT_TRUE(Forward({0, 3}).Run(XlaFfiKitRmsNormCuda).ok());
  // Not one weight either, and so no dweight to set to zero.
  EXPECT_TRUE(
      WeightBackward(0, {0, 3}).Run(XlaFfiKitRmsNormWeightBwdCuda).ok());
}

TEST_F(RmsNormCudaHandlerTest, WithoutAGpuTheErrorNamesOperationAndCause) {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) == cudaSuccess && devices > 0) {
    GTEST_SKIP() << "there is a GPU, and these buffers are not on it";
  }
  const auto run = [](CallFrame frame, XLA_FFI_Handler* handler) {
    const Status status = frame.Run(handler);
    EXPECT_EQ(status.code, XLA_FFI_Error_Code_FAILED_PRECONDITION);
    EXPECT_NE(status.message.find(": launching the CUDA kernel: "),
              std::string::npos)
        << status.message;
  };
  run(Forward(), XlaFfiKitRmsNormCuda);
  run(Backward(), XlaFfiKitRmsNormBwdCuda);
  run(WeightBackward(), XlaFfiKitRmsNormWeightBwdCuda);
  // dweight of a weight without rows is zero: that is to be written.
  run(WeightBackward(0), XlaFfiKitRmsNormWeightBwdCuda);
}

TEST_F(RmsNormCudaHandlerTest, AWorkspaceThatIsTooSmallIsAnError) {
  workspace_.resize(11);
  const Status status = WeightBackward().Run(XlaFfiKitRmsNormWeightBwdCuda);
  EXPECT_EQ(status.code, XLA_FFI_Error_Code_INVALID_ARGUMENT);
  EXPECT_EQ(status.message,
            "xla_ffi_kit.rms_norm_weight_bwd: result workspace: expected one "
            "axis of at least 12 bytes: those of dweight in the type that sums "
            "are computed in, got shape (11)");
}

TEST_F(RmsNormCudaHandlerTest, AllMayBeCaptured) {
  const auto traits = [](XLA_FFI_Handler* handler) {
    const testing::Metadata metadata = testing::GetMetadata(handler);
    EXPECT_TRUE(metadata.status.ok()) << metadata.status.message;
    EXPECT_EQ(metadata.major_version, XLA_FFI_API_MAJOR);
    EXPECT_EQ(metadata.minor_version, XLA_FFI_API_MINOR);
    return metadata.traits;
  };
  constexpr XLA_FFI_Handler_Traits kCompatible =
      XLA_FFI_HANDLER_TRAITS_COMMAND_BUFFER_COMPATIBLE;
  EXPECT_EQ(traits(XlaFfiKitRmsNormCuda), kCompatible);
  EXPECT_EQ(traits(XlaFfiKitRmsNormBwdCuda), kCompatible);
  EXPECT_EQ(traits(XlaFfiKitRmsNormWeightBwdCuda), kCompatible);
}

}  // namespace
}  // namespace xla_ffi_kit
