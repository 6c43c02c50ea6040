#include "xla_ffi/ops/modular_add/modular_add_handler.h"

#include <cstdint>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "xla_ffi/testing/bad_frames.h"
#include "xla_ffi/testing/call_frame.h"

namespace xla_ffi_kit {
namespace {

using testing::CallFrame;
using testing::ExpectInvalid;
using testing::Status;

Status Call(CallFrame::Dims b_dims, CallFrame::Dims c_dims,
            CallFrame::Dims a_dims) {
  std::vector<int32_t> b(6), c(6), a(6);
  return CallFrame().Arg(b, b_dims).Arg(c, c_dims).Ret(a, a_dims).Run(
      XlaFfiKitModularAddCpu);
}

TEST(ModularAddHandlerTest, EachRowRepeatsItsOwnB) {
  std::vector<int32_t> b = {1, 2, 10, 20}, c = {0, 0, 0, 1, 1, 1}, a(6);
  const Status status = CallFrame()
                            .Arg(b, {2, 1, 2})
                            .Arg(c, {2, 1, 3})
                            .Ret(a, {2, 1, 3})
                            .Run(XlaFfiKitModularAddCpu);
  EXPECT_TRUE(status.ok()) << status.message;
  EXPECT_EQ(a, (std::vector<int32_t>{1, 2, 1, 11, 21, 11}));
}

TEST(ModularAddHandlerTest, ThreadsSplitRowsAnywhere) {
  for (const int64_t rows : {1, 3, 1000}) {
    const int64_t n = 128, m = 3'000'000 / rows;
    std::vector<int32_t> b(rows * n), c(rows * m), a(rows * m);
    for (int64_t i = 0; i < rows * n; ++i) b[i] = static_cast<int32_t>(i);
    ASSERT_TRUE(CallFrame()
                    .Arg(b, {rows, n})
                    .Arg(c, {rows, m})
                    .Ret(a, {rows, m})
                    .Threads(3)
                    .Run(XlaFfiKitModularAddCpu)
                    .ok());
    for (int64_t i = 0; i < rows * m; ++i) {
      ASSERT_EQ(a[i], b[i / m * n + i % m % n]) << rows << ", " << i;
    }
  }
}

TEST(ModularAddHandlerTest, EmptyArraysAreNoWork) {
  EXPECT_TRUE(Call({0, 2}, {0, 3}, {0, 3}).ok());
  EXPECT_TRUE(Call({2, 2}, {2, 0}, {2, 0}).ok());
  EXPECT_TRUE(Call({0}, {0}, {0}).ok());
}

TEST(ModularAddHandlerTest, RefusesShapesThatDoNotFit) {
  const std::string op = "xla_ffi_kit.modular_add: ";
  ExpectInvalid(Call({}, {3}, {3}),
                op + "operand b: expected rank >= 1, got rank 0");
  ExpectInvalid(Call({3}, {}, {}),
                op + "operand c: expected rank >= 1, got rank 0");
  ExpectInvalid(Call({2, 3}, {3, 2}, {3, 2}),
                op + "operand c: expected the batch axes of operand b, shape "
                     "(2, 3), got shape (3, 2)");
  ExpectInvalid(Call({2, 0}, {2, 3}, {2, 3}),
                op + "operand b: expected a last axis of at least one "
                     "element, got shape (2, 0)");
  ExpectInvalid(Call({2}, {3}, {2}),
                op + "result a: expected shape (3) like operand c, got shape "
                     "(2)");
}

TEST(ModularAddHandlerTest, RefusesBadFrames) {
  std::vector<float> b = {1, 2}, c = {1, 2, 3, 4}, a(4);
  testing::ExpectRefusesBadFrames(
      XlaFfiKitModularAddCpu,
      CallFrame().Arg(b, {1, 2}).Arg(c, {1, 4}).Ret(a, {1, 4}));
}

TEST(ModularAddHandlerTest, RefusesDtypesThatDoNotFit) {
  std::vector<int32_t> ints(3);
  std::vector<float> floats(3);
  ExpectInvalid(CallFrame()
                    .Arg(ints, {3})
                    .Arg(floats, {3})
                    .Ret(floats, {3})
                    .Run(XlaFfiKitModularAddCpu),
                "xla_ffi_kit.modular_add: operand c: expected dtype s32 like "
                "operand b, got dtype f32");
  bool pred = false;
  ExpectInvalid(CallFrame()
                    .Arg(XLA_FFI_DataType_PRED, &pred, {1})
                    .Arg(XLA_FFI_DataType_PRED, &pred, {1})
                    .Ret(XLA_FFI_DataType_PRED, &pred, {1})
                    .Run(XlaFfiKitModularAddCpu),
                "xla_ffi_kit.modular_add: operand b: expected one of the "
                "dtypes f16, bf16, f32, f64, c64, c128, s8, s16, s32, s64, u8, "
                "u16, u32, u64, got pred");
}

TEST(ModularAddHandlerTest, RefusesNullDataOfElements) {
  std::vector<float> x(3);
  testing::ExpectRefusesNullData(
      XlaFfiKitModularAddCpu, CallFrame().Arg(x, {3}).Arg(x, {3}).Ret(x, {3}),
      "xla_ffi_kit.modular_add", {"operand b", "operand c", "result a"});
}

}  // namespace
}  // namespace xla_ffi_kit
