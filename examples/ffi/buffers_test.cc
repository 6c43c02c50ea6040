// The examples of operands and results, with call frames.

#include <complex>
#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "xla/ffi/api/ffi.h"
#include "xla_ffi/testing/call_frame.h"

XLA_FFI_DECLARE_HANDLER_SYMBOL(ExampleAddOne);
XLA_FFI_DECLARE_HANDLER_SYMBOL(ExampleColumnSums);
XLA_FFI_DECLARE_HANDLER_SYMBOL(ExampleMatVec);
XLA_FFI_DECLARE_HANDLER_SYMBOL(ExampleRealPart);
XLA_FFI_DECLARE_HANDLER_SYMBOL(ExampleReverseOperands);
XLA_FFI_DECLARE_HANDLER_SYMBOL(ExampleScale);
XLA_FFI_DECLARE_HANDLER_SYMBOL(ExampleStamp);
XLA_FFI_DECLARE_HANDLER_SYMBOL(ExampleTupleSums);

namespace ffi_examples {
namespace {

using ::xla_ffi_kit::testing::CallFrame;
using ::xla_ffi_kit::testing::Status;

using Floats = std::vector<float>;

TEST(AnyBufferTest, RealPartsOfComplexNumbers) {
  std::vector<std::complex<float>> x = {{1, 2}, {3, 4}};
  Floats y(2);
  const Status status =
      CallFrame().Arg(x, {1, 2}).Ret(y, {1, 2}).Run(ExampleRealPart);
  EXPECT_EQ(status.message, "");
  EXPECT_EQ(y, (Floats{1, 3}));
}

TEST(AnyBufferTest, CopiesWhatIsReal) {
  std::vector<uint8_t> x = {1, 2, 3}, y(3);
  for (const XLA_FFI_DataType dtype :
       {XLA_FFI_DataType_S1, XLA_FFI_DataType_S2, XLA_FFI_DataType_S4,
        XLA_FFI_DataType_U1, XLA_FFI_DataType_U2, XLA_FFI_DataType_U4,
        XLA_FFI_DataType_F4E2M1FN, XLA_FFI_DataType_F8E3M4,
        XLA_FFI_DataType_F8E4M3, XLA_FFI_DataType_F8E4M3B11FNUZ,
        XLA_FFI_DataType_F8E4M3FN, XLA_FFI_DataType_F8E4M3FNUZ,
        XLA_FFI_DataType_F8E5M2, XLA_FFI_DataType_F8E5M2FNUZ,
        XLA_FFI_DataType_F8E8M0FNU}) {
    y.assign(3, 0);
    EXPECT_TRUE(CallFrame()
                    .Arg(dtype, x.data(), {3})
                    .Ret(dtype, y.data(), {3})
                    .Run(ExampleRealPart)
                    .ok());
    EXPECT_EQ(y, x) << dtype;
  }
  EXPECT_TRUE(CallFrame()
                  .Arg(XLA_FFI_DataType_F16, nullptr, {0, 3})
                  .Ret(XLA_FFI_DataType_F16, nullptr, {0, 3})
                  .Run(ExampleRealPart)
                  .ok());
  EXPECT_FALSE(CallFrame().Arg(x, {3}).Ret(y, {2}).Run(ExampleRealPart).ok());
}

TEST(TypedBuffersTest, MatrixTimesVector) {
  Floats alpha = {2}, a = {0, 1, 2, 3, 4, 5}, x = {1, 1, 1}, y(2);
  CallFrame frame =
      CallFrame().Arg(alpha, {}).Arg(a, {2, 3}).Arg(x, {3}).Ret(y, {2});
  EXPECT_EQ(frame.Run(ExampleMatVec).message, "");
  EXPECT_EQ(y, (Floats{6, 24}));
  frame.args()[2].dims = {2};
  EXPECT_EQ(frame.Run(ExampleMatVec).message,
            "examples.matvec: expected 3 elements in operand x and 2 in the "
            "result, got 2 and 2");
  frame.args()[1].dims = {6};
  EXPECT_NE(frame.Run(ExampleMatVec).message.find("Wrong buffer rank"),
            std::string::npos);
}

TEST(LayoutTest, ReadsColumns) {
  Floats a = {0, 3, 1, 4, 2, 5}, sums(3);  // 2 x 3, column by column
  EXPECT_EQ(
      CallFrame().Arg(a, {2, 3}).Ret(sums, {3}).Run(ExampleColumnSums).message,
      "");
  EXPECT_EQ(sums, (Floats{3, 5, 7}));
  EXPECT_FALSE(
      CallFrame().Arg(a, {2, 3}).Ret(sums, {2}).Run(ExampleColumnSums).ok());
}

TEST(OptionalTest, WithAndWithout) {
  Floats x = {1, 2}, factor = {3}, y(2), sum(1);
  CallFrame frame = CallFrame().Arg(x, {2}).Ret(y, {2});
  EXPECT_EQ(frame.Run(ExampleScale).message, "");
  EXPECT_EQ(y, x);
  frame.Arg(factor, {}).Ret(sum, {});
  EXPECT_EQ(frame.Run(ExampleScale).message, "");
  EXPECT_EQ(y, (Floats{3, 6}));
  EXPECT_EQ(sum[0], 9);
  frame.args()[1].dtype = XLA_FFI_DataType_F64;
  EXPECT_FALSE(frame.Run(ExampleScale).ok());
}

TEST(VariadicTest, AnyNumberOfAnyType) {
  Floats x = {1, 2}, matrix = {3, 4}, x_out(2), matrix_out(2);
  std::vector<int64_t> s = {5}, s_out(1);
  CallFrame frame = CallFrame()
                        .Arg(x, {2})
                        .Arg(s, {})
                        .Arg(matrix, {1, 2})
                        .Ret(matrix_out, {1, 2})
                        .Ret(s_out, {})
                        .Ret(x_out, {2});
  EXPECT_EQ(frame.Run(ExampleReverseOperands).message, "");
  EXPECT_EQ(x_out, (Floats{-1, -2}));
  EXPECT_EQ(matrix_out, matrix);
  EXPECT_EQ(s_out, s);
  frame.rets()[1].dtype = XLA_FFI_DataType_F64;
  EXPECT_EQ(frame.Run(ExampleReverseOperands).message,
            "examples.reverse_operands: result 1: expected it to be like "
            "operand 1");
  EXPECT_FALSE(CallFrame().Run(ExampleReverseOperands).ok());
}

TEST(TokenTest, CarriesNothing) {
  std::vector<int32_t> first(1), second(1);
  for (std::vector<int32_t>* tick : {&first, &second}) {
    EXPECT_EQ(CallFrame()
                  .Arg(XLA_FFI_DataType_TOKEN, nullptr, {})
                  .Ret(XLA_FFI_DataType_TOKEN, nullptr, {})
                  .Ret(*tick, {})
                  .Run(ExampleStamp)
                  .message,
              "");
  }
  EXPECT_EQ(second[0], first[0] + 1);
}

TEST(AliasTest, InPlaceAndNot) {
  std::vector<int32_t> x = {1, 2}, y(2);
  bool in_place = true;
  CallFrame frame = CallFrame().Arg(x, {2}).Ret(y, {2}).Ret(
      XLA_FFI_DataType_PRED, &in_place, {});
  EXPECT_EQ(frame.Run(ExampleAddOne).message, "");
  EXPECT_FALSE(in_place);
  EXPECT_EQ(y, (std::vector<int32_t>{2, 3}));
  frame.rets()[0].data = x.data();
  EXPECT_EQ(frame.Run(ExampleAddOne).message, "");
  EXPECT_TRUE(in_place);
  EXPECT_EQ(x, (std::vector<int32_t>{2, 3}));
}

TEST(TuplesTest, LeavesInOrderAndMemoryToWorkIn) {
  Floats a = {1}, b, c = {1, 2, 3, 4, 5}, sums(3), scratch(3);
  CallFrame frame =
      CallFrame().Arg(a, {1}).Arg(b, {0}).Arg(c, {5}).Ret(sums, {3}).Ret(
          scratch, {3});
  EXPECT_EQ(frame.Run(ExampleTupleSums).message, "");
  EXPECT_EQ(sums, (Floats{1, 0, 15}));
  frame.rets()[1].dims = {2};
  EXPECT_FALSE(frame.Run(ExampleTupleSums).ok());
}

}  // namespace
}  // namespace ffi_examples
