// The CUDA handler as far as a machine without a GPU can run it.

#include <cstdint>
#include <string>
#include <vector>

#include "cuda_runtime.h"
#include "gtest/gtest.h"
#include "xla_ffi/ops/modular_add/modular_add_handler.h"
#include "xla_ffi/testing/bad_frames.h"
#include "xla_ffi/testing/call_frame.h"

namespace xla_ffi_kit {
namespace {

using testing::CallFrame;
using testing::Status;

Status Call(CallFrame::Dims b_dims, CallFrame::Dims c_dims,
            CallFrame::Dims a_dims) {
  std::vector<int32_t> b(6), c(6), a(6);
  return CallFrame().Arg(b, b_dims).Arg(c, c_dims).Ret(a, a_dims).Run(
      XlaFfiKitModularAddCuda);
}

TEST(ModularAddCudaHandlerTest, EmptyArraysLaunchNothing) {
  EXPECT_TRUE(Call({0, 2}, {0, 3}, {0, 3}).ok());
  EXPECT_TRUE(Call({2, 2}, {2, 0}, {2, 0}).ok());
  EXPECT_TRUE(Call({0}, {0}, {0}).ok());
}

TEST(ModularAddCudaHandlerTest, RefusesShapesThatDoNotFitBeforeAnyCudaCall) {
  const std::string op = "xla_ffi_kit.modular_add: ";
  const Status status = Call({2, 0}, {2, 3}, {2, 3});
  EXPECT_EQ(status.code, XLA_FFI_Error_Code_INVALID_ARGUMENT);
  EXPECT_EQ(status.message,
            op + "operand b: expected a last axis of at least one element, "
                 "got shape (2, 0)");
  EXPECT_EQ(Call({2}, {3}, {2}).message,
            op + "result a: expected shape (3) like operand c, got shape (2)");
  std::vector<float> b = {1, 2}, c = {1, 2, 3, 4}, a(4);
  testing::ExpectRefusesBadFrames(
      XlaFfiKitModularAddCuda,
      CallFrame().Arg(b, {1, 2}).Arg(c, {1, 4}).Ret(a, {1, 4}),
      /*can_run=*/false);
}

TEST(ModularAddCudaHandlerTest, WithoutAGpuTheErrorNamesOperationAndCause) {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) == cudaSuccess && devices > 0) {
    GTEST_SKIP() << "there is a GPU, and these buffers are not on it";
  }
  const Status status = Call({2}, {3}, {3});
  EXPECT_EQ(status.code, XLA_FFI_Error_Code_FAILED_PRECONDITION);
  EXPECT_EQ(status.message.rfind(
                "xla_ffi_kit.modular_add: launching the CUDA kernel: ", 0),
            0u)
      << status.message;
}

TEST(ModularAddCudaHandlerTest, AsksForTheFloorAndMayBeCaptured) {
  const testing::Metadata metadata =
      testing::GetMetadata(XlaFfiKitModularAddCuda);
  EXPECT_TRUE(metadata.status.ok()) << metadata.status.message;
  EXPECT_EQ(metadata.minor_version, XLA_FFI_API_MINOR);
  EXPECT_EQ(metadata.traits,
            static_cast<XLA_FFI_Handler_Traits>(
                XLA_FFI_HANDLER_TRAITS_COMMAND_BUFFER_COMPATIBLE));
}

}  // namespace
}  // namespace xla_ffi_kit
