#include "xla_ffi/strings/kit.h"

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "gtest/gtest.h"
#include "xla_ffi/core/define_table.h"
#include "xla_ffi/testing/call_frame.h"

namespace {

template <typename T>
void Scale(kit::In<T> x, double factor, kit::Out<T> y) {
  for (int64_t i = 0; i < x.size(); ++i) y[i] = T(factor * x[i]);
}

// Attributes in another order than XLA's, which is by name.
const char* Describe(std::string_view word, kit::Array<int32_t> at, bool flip,
                     kit::In<float> x, kit::Out<int64_t> y) {
  if (at.size() == 0) return "at is empty";
  if (word == "throw") throw std::runtime_error("thrown");
  y[0] = flip ? -x.dim(-1) : x.dim(0);
  y[1] = at[at.size() - 1];
  return nullptr;
}

void Loop(kit::Threads threads, kit::Out<int32_t> y) {
  threads.For(y.size(), 1 << 20, [&](int64_t begin, int64_t end) {
    if (end == y.size() && y.rank() == 2) throw std::runtime_error("in a part");
    for (int64_t i = begin; i < end; ++i) y[i] = static_cast<int32_t>(i);
  });
}

void DoNothing(kit::In<float>, kit::In<float>, kit::Out<float>,
               kit::Out<float>) {}

}  // namespace

KIT_DEFINE_HANDLER(ScaleHandler, "x", "factor", Scale<float>, Scale<kit::bf16>,
                   Scale<double>);
KIT_DEFINE_HANDLER(DescribeHandler, "x -> where", "word at flip", Describe);
KIT_DEFINE_HANDLER(LoopHandler, "", "", Loop);
static constexpr kit::Shape kShapes[] = {{"(..., a)", XlaFfiKit_Batch_ALL, 1},
                                         {"(b)", XlaFfiKit_Batch_NONE, 1},
                                         {"(...)", XlaFfiKit_Batch_ALL, 0},
                                         {nullptr, XlaFfiKit_Batch_NONE, 0}};
static constexpr kit::Names AddRows_names = {"test.rows", "x w", "", kShapes};
KIT_DEFINE_HANDLER_OF(AddRows, DoNothing);
XLA_FFI_KIT_DEFINE_TABLE("kit_test",
                         XLA_FFI_KIT_HANDLER_WITH_SIGNATURE("test.scale",
                                                            ScaleHandler),
                         XLA_FFI_KIT_HANDLER("test.loop", LoopHandler));

namespace xla_ffi_kit {
namespace {

using testing::CallFrame;

void ExpectInvalid(const testing::Status& status, const std::string& message) {
  EXPECT_EQ(status.code, XLA_FFI_Error_Code_INVALID_ARGUMENT);
  EXPECT_EQ(status.message, message);
}

TEST(KitTest, RunsTheInstanceOfTheCallsTypes) {
  std::vector<float> x = {1, -2}, y(2);
  CallFrame call = CallFrame().Attr("factor", 1.5);
  EXPECT_EQ(CallFrame(call).Arg(x, {2}).Ret(y, {2}).Run(ScaleHandler).message,
            "");
  EXPECT_EQ(y, (std::vector<float>{1.5, -3}));
  std::vector<BFloat16> half = {BFloat16(1.f)}, result = {BFloat16(0.f)};
  EXPECT_TRUE(
      CallFrame(call).Arg(half, {}).Ret(result, {}).Run(ScaleHandler).ok());
  EXPECT_EQ(static_cast<float>(result[0]), 1.5f);
}

TEST(KitTest, OperationsThatAssignRoundToSixteenBits) {
  kit::bf16 x(256.f);
  EXPECT_EQ(static_cast<float>(x += 1), 256.f);  // 257 has nine digits
  EXPECT_EQ(static_cast<float>(x += kit::bf16(3.f)), 260.f);
  EXPECT_EQ(static_cast<float>(x -= 4.f), 256.f);
  EXPECT_EQ(static_cast<float>(x *= 1.5f), 384.f);
  EXPECT_EQ(static_cast<float>(x /= 3), 128.f);
  kit::f16 y(2048.f);
  EXPECT_EQ(static_cast<float>(y += 1), 2048.f);
}

TEST(KitTest, EmptyArraysOfHugeAxesHaveNoElements) {
  constexpr int64_t kHuge = (int64_t{1} << 40) + 1;
  for (const CallFrame::Dims& dims :
       {CallFrame::Dims{kHuge, kHuge, 0}, {0, kHuge, kHuge}}) {
    XLA_FFI_Buffer buffer = {};
    buffer.rank = 3;
    buffer.dims = const_cast<int64_t*>(dims.data());
    const kit::In<float> x(buffer);
    EXPECT_EQ(x.size(), 0);
    EXPECT_EQ(x.rows(), 0);
    EXPECT_EQ(x.columns(), dims[2]);
  }
}

TEST(KitTest, AttributesOfEveryKindInAnyOrder) {
  std::vector<float> x(6);
  std::vector<int64_t> y(2);
  CallFrame call = CallFrame().Arg(x, {2, 3}).Ret(y, {2});
  call.Attr("at", std::vector<int32_t>{7, 9}).Attr("flip", true);
  EXPECT_TRUE(CallFrame(call).Attr("word", "go").Run(DescribeHandler).ok());
  EXPECT_EQ(y, (std::vector<int64_t>{-3, 9}));
  EXPECT_EQ(CallFrame(call).Attr("word", "throw").Run(DescribeHandler).message,
            "DescribeHandler: thrown");
  ExpectInvalid(CallFrame(call)
                    .Attr("word", "go")
                    .Attr("at", std::vector<int32_t>{})
                    .Run(DescribeHandler),
                "DescribeHandler: at is empty");
  ExpectInvalid(CallFrame(call).Attr("word", 1.0).Run(DescribeHandler),
                "DescribeHandler: attribute word: expected a string, got "
                "another type");
}

TEST(KitTest, RefusesOtherCalls) {
  std::vector<float> x(2);
  std::vector<double> wide(2);
  CallFrame one = CallFrame().Arg(x, {2});
  CallFrame call = CallFrame(one).Ret(x, {2});
  ExpectInvalid(CallFrame(call).Run(ScaleHandler),
                "ScaleHandler: call: expected 1 operands, 1 results and 1 "
                "attributes, got 1, 1 and 0");
  ExpectInvalid(CallFrame(call).Attr("factor", 1.f).Run(ScaleHandler),
                "ScaleHandler: attribute factor: expected f64 scalar, got "
                "another type");
  ExpectInvalid(CallFrame(call).Attr("factors", 1.0).Run(ScaleHandler),
                "ScaleHandler: attribute factor: expected f64 scalar, got "
                "factors");
  ExpectInvalid(
      CallFrame(one).Ret(wide, {2}).Attr("factor", 1.0).Run(ScaleHandler),
      "ScaleHandler: types: expected f32 -> f32 or bf16 -> bf16 or f64 -> "
      "f64, got f32 -> f64");
}

TEST(KitTest, WithoutAParallelLoopTheCallerRunsIt) {
  ASSERT_EQ(XlaFfiKit_parallel_for, nullptr);
  std::vector<int32_t> y(3);
  EXPECT_TRUE(CallFrame().Ret(y, {3}).Threads(4).Run(LoopHandler).ok());
  EXPECT_EQ(y, (std::vector<int32_t>{0, 1, 2}));
}

TEST(KitTest, MetadataAndTable) {
  const testing::Metadata metadata = testing::GetMetadata(ScaleHandler);
  EXPECT_TRUE(metadata.status.ok());
  EXPECT_EQ(metadata.major_version, XLA_FFI_API_MAJOR);
  EXPECT_EQ(metadata.minor_version, XLA_FFI_API_MINOR);
  const XlaFfiKit_HandlerTable* table = XlaFfiKit_GetHandlerTable();
  EXPECT_EQ(table->struct_size, sizeof(XlaFfiKit_HandlerTable));
  ASSERT_EQ(table->num_handlers, 2);
  EXPECT_STREQ(table->handlers[1].name, "test.loop");
  EXPECT_EQ(table->handlers[1].execute, &LoopHandler);
  EXPECT_EQ(table->parallel_for, &XlaFfiKit_parallel_for);
}

TEST(KitTest, SignatureIsInTheTable) {
  const XlaFfiKit_HandlerTable* table = XlaFfiKit_GetHandlerTable();
  const XlaFfiKit_Signature& scale = *table->handlers[0].signature;
  EXPECT_STREQ(scale.operation, "ScaleHandler");
  EXPECT_STREQ(scale.arguments[1].name, "result");
  EXPECT_EQ(scale.num_combinations, 3);
  EXPECT_EQ(scale.arguments[1].dtypes[1], XLA_FFI_DataType_BF16);
  EXPECT_GT(scale.attributes[0].min, scale.attributes[0].max);
  // By name, in whatever order the function has them.
  EXPECT_STREQ(DescribeHandler_signature.attributes[0].name, "at");
  EXPECT_STREQ(DescribeHandler_signature.attributes[2].name, "word");
  EXPECT_STREQ(DescribeHandler_signature.arguments[1].name, "where");
  EXPECT_STREQ(AddRows_signature.arguments[3].name, "result1");
  EXPECT_STREQ(AddRows_signature.arguments[1].shape, "(b)");
  EXPECT_EQ(AddRows_signature.num_sizes, 2);
}

TEST(KitTest, RefusesOtherShapes) {
  std::vector<float> x(6), w(3), y(6), z(1);
  const auto run = [&](const CallFrame::Dims& of_x, const CallFrame::Dims& of_w,
                       const CallFrame::Dims& of_y) {
    return CallFrame().Arg(x, of_x).Arg(w, of_w).Ret(y, of_y).Ret(z, {}).Run(
        AddRows);
  };
  EXPECT_EQ(run({2, 3}, {3}, {2}).message, "");
  EXPECT_EQ(run({3}, {3}, {}).message, "");
  ExpectInvalid(run({2, 3}, {3}, {3}),
                "test.rows: result result0: expected shape (...), with the "
                "batch axes of those before it, got shape (3)");
  ExpectInvalid(run({2, 3}, {1, 3}, {2}),
                "test.rows: operand w: expected shape (b), with the batch axes "
                "of those before it, got shape (1, 3)");
  ExpectInvalid(run({}, {3}, {}),
                "test.rows: operand x: expected shape (..., a), with the batch "
                "axes of those before it, got shape ()");
}

}  // namespace
}  // namespace xla_ffi_kit
