// The CUDA handlers as far as a machine without a GPU can run them.

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

class RmsNormCudaHandlerTest : public ::testing::Test {
 protected:
  Status Forward(CallFrame::Dims x, CallFrame::Dims y, CallFrame::Dims scale) {
    return CallFrame()
        .Arg(x_, x)
        .Ret(y_, y)
        .Ret(scale_, scale)
        .Attr("eps", 0.0)
        .Run(XlaFfiKitRmsNormFwdCuda);
  }
  Status Backward(CallFrame::Dims scale, CallFrame::Dims ct) {
    return CallFrame()
        .Arg(scale_, scale)
        .Arg(x_, {2, 3})
        .Arg(ct_, ct)
        .Ret(y_, {2, 3})
        .Run(XlaFfiKitRmsNormBwdCuda);
  }

  CallFrame Gradient(CallFrame::Dims ct) {
    return CallFrame()
        .Arg(x_, {2, 3})
        .Arg(ct_, ct)
        .Ret(y_, {2, 3})
        .Attr("eps", 1e-6);
  }

  std::vector<float> x_ = std::vector<float>(6), y_ = x_, ct_ = x_, scale_ = x_;
};

TEST_F(RmsNormCudaHandlerTest, RefusesWrongShapesBeforeAnyCudaCall) {
  ExpectInvalid(Forward({}, {}, {}),
                "xla_ffi_kit.rms_norm_fwd: operand x: expected rank >= 1, got "
                "rank 0");
  ExpectInvalid(Forward({2, 0}, {2, 0}, {2}),
                "xla_ffi_kit.rms_norm_fwd: operand x: expected a last axis of "
                "at least one element, got shape (2, 0)");
  ExpectInvalid(Forward({2, 3}, {2, 3}, {3}),
                "xla_ffi_kit.rms_norm_fwd: result scale: expected shape (2) "
                "like operand x without its last axis, got shape (3)");
  ExpectInvalid(Backward({2}, {6}),
                "xla_ffi_kit.rms_norm_bwd: operand ct: expected shape (2, 3) "
                "like operand x, got shape (6)");
  ExpectInvalid(Gradient({3, 2}).Run(XlaFfiKitRmsNormGradCuda),
                "xla_ffi_kit.rms_norm_grad: operand ct: expected shape (2, 3) "
                "like operand x, got shape (3, 2)");
}

TEST_F(RmsNormCudaHandlerTest, RefusesWrongDtypesAndAttributes) {
  std::vector<int> ints(6);
  ExpectInvalid(CallFrame()
                    .Arg(ints, {2, 3})
                    .Ret(ints, {2, 3})
                    .Attr("eps", 0.0)
                    .Run(XlaFfiKitRmsNormCuda),
                "xla_ffi_kit.rms_norm: operand x: expected one of the dtypes "
                "f16, bf16, f32, f64, c64, c128, got s32");
  ExpectInvalid(
      CallFrame().Arg(x_, {2, 3}).Ret(y_, {2, 3}).Run(XlaFfiKitRmsNormCuda),
      "xla_ffi_kit.rms_norm: attribute eps: expected it as the only attribute, "
      "got attributes {}");
}

TEST_F(RmsNormCudaHandlerTest, RefusesBadFrames) {
  const auto expect = [](XLA_FFI_Handler* handler, const CallFrame& good) {
    testing::ExpectRefusesBadFrames(handler, good, /*can_run=*/false);
  };
  CallFrame forward = CallFrame().Arg(x_, {2, 3}).Ret(y_, {2, 3});
  forward.Attr("eps", 1e-6);
  expect(XlaFfiKitRmsNormCuda, forward);
  expect(XlaFfiKitRmsNormFwdCuda, forward.Ret(scale_, {2}));
  expect(XlaFfiKitRmsNormBwdCuda, CallFrame()
                                      .Arg(scale_, {2})
                                      .Arg(x_, {2, 3})
                                      .Arg(ct_, {2, 3})
                                      .Ret(y_, {2, 3}));
  expect(XlaFfiKitRmsNormGradCuda, Gradient({2, 3}));
}

TEST_F(RmsNormCudaHandlerTest, EmptyBatchLaunchesNothing) {
  EXPECT_TRUE(Forward({0, 3}, {0, 3}, {0}).ok());
}

TEST_F(RmsNormCudaHandlerTest, WithoutAGpuTheErrorNamesOperationAndCause) {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) == cudaSuccess && devices > 0) {
    GTEST_SKIP() << "there is a GPU, and these buffers are not on it";
  }
  for (const Status& status :
       {Forward({2, 3}, {2, 3}, {2}), Backward({2}, {2, 3}),
        Gradient({2, 3}).Run(XlaFfiKitRmsNormGradCuda)}) {
    EXPECT_EQ(status.code, XLA_FFI_Error_Code_FAILED_PRECONDITION);
    EXPECT_NE(status.message.find(": launching the CUDA kernel: "),
              std::string::npos)
        << status.message;
  }
}

TEST_F(RmsNormCudaHandlerTest, AsksForTheFloorAndMayBeCaptured) {
  for (XLA_FFI_Handler* handler :
       {XlaFfiKitRmsNormCuda, XlaFfiKitRmsNormFwdCuda, XlaFfiKitRmsNormBwdCuda,
        XlaFfiKitRmsNormGradCuda}) {
    const testing::Metadata metadata = testing::GetMetadata(handler);
    EXPECT_TRUE(metadata.status.ok()) << metadata.status.message;
    EXPECT_EQ(metadata.major_version, XLA_FFI_API_MAJOR);
    EXPECT_EQ(metadata.minor_version, XLA_FFI_API_MINOR);
    EXPECT_EQ(metadata.traits,
              static_cast<XLA_FFI_Handler_Traits>(
                  XLA_FFI_HANDLER_TRAITS_COMMAND_BUFFER_COMPATIBLE));
  }
}

}  // namespace
}  // namespace xla_ffi_kit
