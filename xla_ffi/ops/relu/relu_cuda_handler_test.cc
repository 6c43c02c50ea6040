// The CUDA handler as far as a machine without a GPU can run it.

#include <complex>
#include <vector>

#include "cuda_runtime.h"
#include "gtest/gtest.h"
#include "xla_ffi/ops/relu/relu_handler.h"
#include "xla_ffi/testing/bad_frames.h"
#include "xla_ffi/testing/call_frame.h"

namespace xla_ffi_kit {
namespace {

using testing::CallFrame;
using testing::Status;

TEST(ReluCudaHandlerTest, RefusesWhatItCannotDoBeforeAnyCudaCall) {
  std::vector<float> x(2);
  std::vector<std::complex<float>> z(2);
  testing::ExpectInvalid(
      CallFrame().Arg(x, {2}).Ret(x, {1}).Run(XlaFfiKitReluCuda),
      "xla_ffi_kit.relu: result y: expected shape (2) like operand x, got "
      "shape (1)");
  testing::ExpectInvalid(
      CallFrame().Arg(z, {2}).Ret(z, {2}).Run(XlaFfiKitReluCuda),
      "xla_ffi_kit.relu: operand x: expected one of the dtypes f8e5m2, f16, "
      "bf16, "
      "f32, f64, s8, s16, s32, s64, got c64");
  std::vector<float> y(2);
  testing::ExpectRefusesBadFrames(XlaFfiKitReluCuda,
                                  CallFrame().Arg(x, {1, 2}).Ret(y, {1, 2}),
                                  /*can_run=*/false);
}

TEST(ReluCudaHandlerTest, NoElementsLaunchNothing) {
  std::vector<float> x;
  const Status status =
      CallFrame().Arg(x, {0, 3}).Ret(x, {0, 3}).Run(XlaFfiKitReluCuda);
  EXPECT_TRUE(status.ok()) << status.message;
}

TEST(ReluCudaHandlerTest, WithoutAGpuTheErrorNamesTheOperationAndTheCause) {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) == cudaSuccess && devices > 0) {
    GTEST_SKIP() << "there is a GPU, and these buffers are not on it";
  }
  std::vector<float> x(2);
  const Status status =
      CallFrame().Arg(x, {2}).Ret(x, {2}).Run(XlaFfiKitReluCuda);
  EXPECT_EQ(status.code, XLA_FFI_Error_Code_FAILED_PRECONDITION);
  EXPECT_EQ(
      status.message.rfind("xla_ffi_kit.relu: launching the CUDA kernel: ", 0),
      0u)
      << status.message;
}

TEST(ReluCudaHandlerTest, AsksForTheFloorAndMayBeCaptured) {
  const testing::Metadata metadata = testing::GetMetadata(XlaFfiKitReluCuda);
  EXPECT_TRUE(metadata.status.ok()) << metadata.status.message;
  EXPECT_EQ(metadata.major_version, XLA_FFI_API_MAJOR);
  EXPECT_EQ(metadata.minor_version, XLA_FFI_API_MINOR);
  EXPECT_EQ(metadata.traits,
            static_cast<XLA_FFI_Handler_Traits>(
                XLA_FFI_HANDLER_TRAITS_COMMAND_BUFFER_COMPATIBLE));
}

}  // namespace
}  // namespace xla_ffi_kit
