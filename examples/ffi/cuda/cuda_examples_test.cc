// The examples on CUDA, as far as a machine without a GPU can run them.

#include <cstdint>
#include <string>
#include <vector>

#include "cuda_runtime.h"
#include "gtest/gtest.h"
#include "xla/ffi/api/ffi.h"
#include "xla_ffi/core/handler_table.h"
#include "xla_ffi/testing/call_frame.h"

XLA_FFI_DECLARE_HANDLER_SYMBOL(ExampleAddOneCuda);
XLA_FFI_DECLARE_HANDLER_SYMBOL(ExampleCounterExecuteCuda);
XLA_FFI_DECLARE_HANDLER_SYMBOL(ExampleCounterInstantiateCuda);
XLA_FFI_DECLARE_HANDLER_SYMBOL(ExampleScalarsCuda);
XLA_FFI_DECLARE_HANDLER_SYMBOL(ExampleScratchCuda);
XLA_FFI_DECLARE_HANDLER_SYMBOL(ExampleStagesExecuteCuda);
XLA_FFI_DECLARE_HANDLER_SYMBOL(ExampleStagesInitializeCuda);
XLA_FFI_DECLARE_HANDLER_SYMBOL(ExampleStagesInstantiateCuda);
XLA_FFI_DECLARE_HANDLER_SYMBOL(ExampleStagesPrepareCuda);
XLA_FFI_DECLARE_HANDLER_SYMBOL(ExampleTableExecuteCuda);
XLA_FFI_DECLARE_HANDLER_SYMBOL(ExampleTableInitializeCuda);
XLA_FFI_DECLARE_HANDLER_SYMBOL(ExampleTableInstantiateCuda);

extern "C" const XlaFfiKit_HandlerTable* cuda_examples_handler_table();

namespace ffi_examples {
namespace {

using ::xla_ffi_kit::testing::CallFrame;
using ::xla_ffi_kit::testing::GetMetadata;
using ::xla_ffi_kit::testing::HandlerState;
using ::xla_ffi_kit::testing::RegisterType;
using ::xla_ffi_kit::testing::Status;

constexpr auto kInstantiate = XLA_FFI_ExecutionStage_INSTANTIATE;
constexpr auto kPrepare = XLA_FFI_ExecutionStage_PREPARE;
constexpr auto kInitialize = XLA_FFI_ExecutionStage_INITIALIZE;

class CudaExamplesTest : public ::testing::Test {
 protected:
  CudaExamplesTest() {
    const XlaFfiKit_HandlerTable* table = cuda_examples_handler_table();
    EXPECT_EQ(table->num_types, 3u);
    for (size_t i = 0; i < table->num_types; ++i) {
      const XlaFfiKit_Type& type = table->types[i];
      EXPECT_TRUE(RegisterType(type.name, type.type_id, type.type_info).ok());
    }
  }

  static bool HasGpu() {
    int devices = 0;
    return cudaGetDeviceCount(&devices) == cudaSuccess && devices > 0;
  }

  // What a call that is right in itself ends with.
  static void ExpectNoGpu(const Status& status, const std::string& operation) {
    if (HasGpu()) GTEST_SKIP() << "these buffers are not on the GPU";
    EXPECT_EQ(status.code, XLA_FFI_Error_Code_FAILED_PRECONDITION);
    const std::string begin = operation + ": launching the CUDA kernel: ";
    EXPECT_EQ(status.message.substr(0, begin.size()), begin);
  }

  std::vector<int32_t> x_ = {1, 2, 3, 4}, y_ = x_, one_ = {0};
  std::vector<double> doubles_ = std::vector<double>(12);
};

TEST_F(CudaExamplesTest, WithoutState) {
  bool in_place = false;
  ExpectNoGpu(CallFrame()
                  .Arg(x_, {4})
                  .Ret(y_, {4})
                  .Ret(XLA_FFI_DataType_PRED, &in_place, {})
                  .Run(ExampleAddOneCuda),
              "examples.add_one");
  ExpectNoGpu(CallFrame()
                  .Ret(one_, {})
                  .Attr("count", int32_t{1})
                  .Attr("size", int64_t{64})
                  .Scratch(64)
                  .Run(ExampleScratchCuda),
              "examples.scratch");
}

TEST_F(CudaExamplesTest, CounterTakesItsStateFromInstantiate) {
  HandlerState state;
  CallFrame make = CallFrame().State(state).Attr("start", int32_t{3});
  EXPECT_TRUE(make.Run(ExampleCounterInstantiateCuda, kInstantiate).ok());
  CallFrame call = CallFrame().Ret(one_, {}).Attr("start", int32_t{3});
  EXPECT_FALSE(call.Run(ExampleCounterExecuteCuda).ok()) << "no state";
  ExpectNoGpu(call.State(state).Run(ExampleCounterExecuteCuda),
              "examples.counter");
}

TEST_F(CudaExamplesTest, AllStagesRun) {
  HandlerState state;
  CallFrame frame = CallFrame().State(state);
  EXPECT_TRUE(frame.Run(ExampleStagesInstantiateCuda, kInstantiate).ok());
  EXPECT_TRUE(frame.Run(ExampleStagesPrepareCuda, kPrepare).ok());
  EXPECT_TRUE(frame.Run(ExampleStagesInitializeCuda, kInitialize).ok());
  ExpectNoGpu(
      CallFrame().State(state).Ret(y_, {4}).Run(ExampleStagesExecuteCuda),
      "examples.stages");
}

TEST_F(CudaExamplesTest, TheTableIsUploadedBeforeItIsUsed) {
  HandlerState state;
  CallFrame make =
      CallFrame().State(state).Attr("table", std::vector<double>{1.5, 2.5});
  ASSERT_TRUE(make.Run(ExampleTableInstantiateCuda, kInstantiate).ok());
  CallFrame call =
      CallFrame().State(state).DeviceOrdinal(2).Arg(x_, {4}).Ret(doubles_, {4});
  EXPECT_EQ(call.Run(ExampleTableExecuteCuda).message,
            "examples.table: stage Initialize: expected it to have run on "
            "device 2");
  ExpectNoGpu(CallFrame().State(state).DeviceOrdinal(2).Run(
                  ExampleTableInitializeCuda, kInitialize),
              "examples.table");
}

TEST_F(CudaExamplesTest, OnlyWhatStaysTrueMayBeCaptured) {
  constexpr XLA_FFI_Handler_Traits kCompatible =
      XLA_FFI_HANDLER_TRAITS_COMMAND_BUFFER_COMPATIBLE;
  EXPECT_EQ(GetMetadata(ExampleScalarsCuda).traits, kCompatible);
  EXPECT_EQ(GetMetadata(ExampleTableExecuteCuda).traits, kCompatible);
  EXPECT_EQ(GetMetadata(ExampleAddOneCuda).traits, 0u);
  EXPECT_EQ(GetMetadata(ExampleCounterExecuteCuda).traits, 0u);
  EXPECT_EQ(GetMetadata(ExampleScratchCuda).traits, 0u);
  EXPECT_EQ(GetMetadata(ExampleStagesExecuteCuda).traits, 0u);
}

}  // namespace
}  // namespace ffi_examples
