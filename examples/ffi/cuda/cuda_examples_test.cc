// The examples on CUDA, as far as a machine without a GPU can run them.

#include <cstdint>
#include <string>
#include <vector>

#include "cuda_runtime.h"
#include "gtest/gtest.h"
#include "xla/ffi/api/ffi.h"
#include "xla_ffi/core/handler_table.h"
#include "xla_ffi/testing/call_frame.h"
#include "xla_ffi/testing/expect_invalid.h"

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
using ::xla_ffi_kit::testing::ExpectInvalid;
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
    EXPECT_EQ(table->num_types, 4u);
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

  static Status MakeTable(HandlerState& state, std::vector<double> table) {
    return CallFrame()
        .State(state)
        .Attr("table", table)
        .Run(ExampleTableInstantiateCuda, kInstantiate);
  }

  std::vector<int32_t> x_ = {1, 2, 3, 4}, y_ = x_, one_ = {0};
  std::vector<uint8_t> bytes_ = {0};
  std::vector<double> doubles_ = std::vector<double>(12);
};

TEST_F(CudaExamplesTest, AddOne) {
  CallFrame frame = CallFrame().Arg(x_, {4}).Ret(y_, {4}).Ret(
      XLA_FFI_DataType_PRED, bytes_.data(), {});
  ExpectNoGpu(frame.Run(ExampleAddOneCuda), "examples.add_one");
  frame.rets()[0].dims = {2, 2};
  ExpectInvalid(frame.Run(ExampleAddOneCuda),
                "examples.add_one: result y: expected x's shape");
}

TEST_F(CudaExamplesTest, CounterTakesItsStateFromInstantiate) {
  HandlerState state, failed;
  const auto make = [](HandlerState& to, int32_t start) {
    return CallFrame()
        .State(to)
        .Attr("start", start)
        .Run(ExampleCounterInstantiateCuda, kInstantiate);
  };
  EXPECT_TRUE(make(state, 3).ok());
  ExpectInvalid(make(failed, -1),
                "examples.counter: attribute start: expected a value >= 0, got "
                "-1");
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
  CallFrame execute = CallFrame().State(state).Ret(y_, {3});
  ExpectInvalid(execute.Run(ExampleStagesExecuteCuda),
                "examples.stages: expected 4 elements");
  execute.rets()[0].dims = {4};
  ExpectNoGpu(execute.Run(ExampleStagesExecuteCuda), "examples.stages");
}

TEST_F(CudaExamplesTest, TheTableIsUploadedBeforeItIsUsed) {
  HandlerState state, failed;
  ExpectInvalid(MakeTable(failed, {}),
                "examples.table: attribute table: expected at least one "
                "element");
  ASSERT_TRUE(MakeTable(state, {1.5, 2.5}).ok());
  CallFrame call =
      CallFrame().State(state).DeviceOrdinal(2).Arg(x_, {4}).Ret(doubles_, {4});
  const Status too_early = call.Run(ExampleTableExecuteCuda);
  EXPECT_EQ(too_early.code, XLA_FFI_Error_Code_FAILED_PRECONDITION);
  EXPECT_EQ(too_early.message,
            "examples.table: stage Initialize: expected it to have run on "
            "device 2");
  ExpectNoGpu(CallFrame().State(state).DeviceOrdinal(2).Run(
                  ExampleTableInitializeCuda, kInitialize),
              "examples.table");
  call.rets()[0].dims = {3};
  ExpectInvalid(
      call.Run(ExampleTableExecuteCuda),
      "examples.table: result y: expected as many elements as operand "
      "index");
}

TEST_F(CudaExamplesTest, ScalarsAndScratch) {
  CallFrame frame = CallFrame().Ret(doubles_, {12});
  frame.Attr("pred", true)
      .Attr("s8", int8_t{-1})
      .Attr("s16", int16_t{2})
      .Attr("s32", int32_t{3})
      .Attr("s64", int64_t{4})
      .Attr("u8", uint8_t{5})
      .Attr("u16", uint16_t{6})
      .Attr("u32", uint32_t{7})
      .Attr("u64", uint64_t{8})
      .Attr("f32", 9.5f)
      .Attr("f64", 10.5)
      .Attr("text", std::string("eleven"));
  ExpectNoGpu(frame.Run(ExampleScalarsCuda), "examples.scalars");
  frame.rets()[0].dims = {11};
  ExpectInvalid(frame.Run(ExampleScalarsCuda),
                "expected a result with one element per attribute");

  ExpectNoGpu(CallFrame()
                  .Ret(one_, {})
                  .Attr("count", int32_t{1})
                  .Attr("size", int64_t{64})
                  .Scratch(64)
                  .Run(ExampleScratchCuda),
              "examples.scratch");
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
