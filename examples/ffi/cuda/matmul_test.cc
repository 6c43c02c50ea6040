// examples.matmul with a cuBLAS that is a fake.

#include <dlfcn.h>

#include <cstdint>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "xla/ffi/api/ffi.h"
#include "xla_ffi/core/handler_table.h"
#include "xla_ffi/testing/call_frame.h"
#include "xla_ffi/testing/expect_invalid.h"

XLA_FFI_DECLARE_HANDLER_SYMBOL(ExampleMatmulExecuteCuda);
XLA_FFI_DECLARE_HANDLER_SYMBOL(ExampleMatmulInstantiateCuda);

extern "C" const XlaFfiKit_HandlerTable* cuda_examples_handler_table();

namespace ffi_examples {
namespace {

using ::xla_ffi_kit::testing::CallFrame;
using ::xla_ffi_kit::testing::ExpectInvalid;
using ::xla_ffi_kit::testing::HandlerState;
using ::xla_ffi_kit::testing::RegisterType;
using ::xla_ffi_kit::testing::Status;

constexpr char kFake[] = "examples/ffi/cuda/fake_cublas.so";

class MatmulTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    const XlaFfiKit_HandlerTable* table = cuda_examples_handler_table();
    for (size_t i = 0; i < table->num_types; ++i) {
      const XlaFfiKit_Type& type = table->types[i];
      ASSERT_TRUE(RegisterType(type.name, type.type_id, type.type_info).ok());
    }
  }

  static Status Open(HandlerState& state, const std::string& library) {
    return CallFrame()
        .State(state)
        .Attr("library", library)
        .Run(ExampleMatmulInstantiateCuda, XLA_FFI_ExecutionStage_INSTANTIATE);
  }

  CallFrame Call(HandlerState& state, int32_t device) {
    return CallFrame()
        .State(state)
        .DeviceOrdinal(device)
        .Stream(&stream_)
        .Arg(a_, {2, 3})
        .Arg(b_, {3, 4})
        .Ret(y_, {2, 4});
  }

  static int NumHandles() {
    return reinterpret_cast<int (*)()>(Symbol("FakeCublasNumHandles"))();
  }
  static void* LastStream() {
    return reinterpret_cast<void* (*)()>(Symbol("FakeCublasLastStream"))();
  }
  static void* Symbol(const char* name) {
    return dlsym(dlopen(kFake, RTLD_NOW | RTLD_NOLOAD), name);
  }

  int stream_ = 0;
  std::vector<float> a_ = {1, 2, 3, 4, 5, 6};
  std::vector<float> b_ = {1, 0, 0, 2, 0, 1, 0, 2, 0, 0, 1, 2};
  std::vector<float> y_ = std::vector<float>(8, -1);
};

TEST_F(MatmulTest, Multiplies) {
  HandlerState state;
  ASSERT_TRUE(Open(state, kFake).ok());
  const Status status = Call(state, 0).Run(ExampleMatmulExecuteCuda);
  EXPECT_TRUE(status.ok()) << status.message;
  EXPECT_EQ(y_, (std::vector<float>{1, 2, 3, 12, 4, 5, 6, 30}));
  EXPECT_EQ(LastStream(), &stream_);
}

TEST_F(MatmulTest, EachDeviceHasItsHandleUntilTheStateGoes) {
  {
    HandlerState state;
    ASSERT_TRUE(Open(state, kFake).ok());
    for (const int32_t device : {0, 1, 0}) {
      EXPECT_TRUE(Call(state, device).Run(ExampleMatmulExecuteCuda).ok());
    }
    EXPECT_EQ(NumHandles(), 2);
    const Status failed = Call(state, 2).Run(ExampleMatmulExecuteCuda);
    EXPECT_EQ(failed.message,
              "examples.matmul: cuBLAS: the resource allocation failed");
    EXPECT_TRUE(Call(state, 1).Run(ExampleMatmulExecuteCuda).ok());
  }
  EXPECT_EQ(NumHandles(), 0);
}

TEST_F(MatmulTest, AnInnerDimensionOfZeroGivesZeros) {
  HandlerState state;
  ASSERT_TRUE(Open(state, kFake).ok());
  CallFrame call = Call(state, 0);
  call.args()[0].dims = {2, 0};
  call.args()[1].dims = {0, 4};
  EXPECT_TRUE(call.Run(ExampleMatmulExecuteCuda).ok());
  EXPECT_EQ(y_, std::vector<float>(8, 0));
}

TEST_F(MatmulTest, Mistakes) {
  // The rest is the loader's.
  const std::string begin =
      "examples.matmul: attribute library: expected the file of cuBLAS, such "
      "as libcublas.so.13, got ";
  for (const char* name : {"libabsent.so", "libm.so.6"}) {
    HandlerState failed;
    const Status status = Open(failed, name);
    EXPECT_EQ(status.code, XLA_FFI_Error_Code_INVALID_ARGUMENT);
    EXPECT_EQ(status.message.find(begin + '"' + name + "\": "), 0u)
        << status.message;
  }
  HandlerState state;
  ASSERT_TRUE(Open(state, kFake).ok());
  CallFrame call = Call(state, 0);
  call.args()[1].dims = {4, 3};
  ExpectInvalid(call.Run(ExampleMatmulExecuteCuda),
                "examples.matmul: shapes: expected [m, k], [k, n] and [m, n]");
}

}  // namespace
}  // namespace ffi_examples
