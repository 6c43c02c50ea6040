// The examples of examples/ffi in XLA computations made with XlaBuilder: what
// JAX cannot express.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "examples/ffi/user_data.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/cc/runner.h"
#include "xla/ffi/api/ffi.h"
#include "xla/hlo/builder/xla_builder.h"
#include "xla/literal.h"
#include "xla/literal_util.h"
#include "xla/shape_util.h"
#include "xla_ffi/core/handler_table.h"

extern "C" const XlaFfiKit_HandlerTable* ffi_examples_handler_table();

namespace xla_ffi_kit {
namespace {

using ::testing::HasSubstr;
using xla::F32;
using xla::Literal;
using xla::LiteralUtil;
using xla::S32;
using xla::Shape;
using xla::ShapeUtil;
using xla::XlaOp;

// What CustomCall() takes beside target and operands.
struct Options {
  std::string attributes;
  bool has_side_effect = false;
};

XlaOp Call(xla::XlaBuilder& builder, const std::string& target,
           const std::vector<XlaOp>& operands, const Shape& result,
           const Options& options = {}) {
  return xla::CustomCall(&builder, target, operands, result, options.attributes,
                         options.has_side_effect,
                         /*output_operand_aliasing=*/{},
                         /*literal=*/nullptr,
                         xla::CustomCallSchedule::SCHEDULE_NONE,
                         xla::CustomCallApiVersion::API_VERSION_TYPED_FFI);
}

Shape Vector(xla::PrimitiveType type, int64_t size) {
  return ShapeUtil::MakeShape(type, {size});
}

std::vector<float> Iota(int64_t size) {
  std::vector<float> values;
  for (int64_t i = 0; i < size; ++i) values.push_back(static_cast<float>(i));
  return values;
}

class FfiExamplesTest
    : public ::testing::TestWithParam<std::unique_ptr<Runner> (*)()> {
 protected:
  FfiExamplesTest() : builder_("examples"), runner_(GetParam()()) {}

  // Runs what builder_ holds, whose result is its last operation.
  Literal Run(std::vector<Literal> arguments = {}) {
    absl::StatusOr<xla::XlaComputation> computation = builder_.Build();
    EXPECT_TRUE(computation.ok()) << computation.status();
    if (!computation.ok()) return Literal();
    absl::StatusOr<Literal> result = runner_->Run(*computation, arguments);
    EXPECT_TRUE(result.ok()) << result.status();
    return result.ok() ? *std::move(result) : Literal();
  }

  xla::XlaBuilder builder_;
  std::unique_ptr<Runner> runner_;
};

// a, (b, c) -> ((sums), scratch): the handler sees a, b, c, sums, scratch.
TEST_P(FfiExamplesTest, NestedTuplesAreFlattened) {
  const XlaOp a = xla::ConstantR1<float>(&builder_, Iota(32));
  const XlaOp b = xla::ConstantR1<float>(&builder_, Iota(64));
  const XlaOp c = xla::ConstantR1<float>(&builder_, Iota(128));
  const Shape result = ShapeUtil::MakeTupleShape(
      {ShapeUtil::MakeTupleShape({Vector(F32, 3)}), Vector(F32, 64)});
  const XlaOp call = Call(builder_, "examples.tuple_sums",
                          {a, xla::Tuple(&builder_, {b, c})}, result);
  // The second element is memory to work in: nobody reads it.
  xla::GetTupleElement(xla::GetTupleElement(call, 0), 0);
  const Literal sums = Run();
  ASSERT_EQ(sums.element_count(), 3);
  EXPECT_EQ(sums.Get<float>({0}), 31 * 32 / 2);
  EXPECT_EQ(sums.Get<float>({1}), 63 * 64 / 2);
  EXPECT_EQ(sums.Get<float>({2}), 127 * 128 / 2);
}

// The same of one parameter (a, (b, c)), which PjRt has no buffer for.
TEST(FfiExamplesLocalClientTest, NestedTupleParameterIsFlattened) {
  xla::XlaBuilder builder("nested_tuple_parameter");
  const Shape b_and_c =
      ShapeUtil::MakeTupleShape({Vector(F32, 2), Vector(F32, 5)});
  const XlaOp all = xla::Parameter(
      &builder, 0, ShapeUtil::MakeTupleShape({Vector(F32, 3), b_and_c}), "all");
  const Shape result =
      ShapeUtil::MakeTupleShape({Vector(F32, 3), Vector(F32, 3)});
  xla::GetTupleElement(Call(builder, "examples.tuple_sums", {all}, result), 0);
  absl::StatusOr<xla::XlaComputation> computation = builder.Build();
  ASSERT_TRUE(computation.ok()) << computation.status();

  Literal inner = LiteralUtil::MakeTupleOwned(
      LiteralUtil::CreateR1<float>({10, 20}),
      LiteralUtil::CreateR1<float>({1, 2, 3, 4, 5}));
  std::vector<Literal> arguments;
  arguments.push_back(LiteralUtil::MakeTupleOwned(
      LiteralUtil::CreateR1<float>({100, 200, 300}), std::move(inner)));
  absl::StatusOr<Literal> sums =
      MakeLocalClientRunner()->Run(*computation, arguments);
  ASSERT_TRUE(sums.ok()) << sums.status();
  EXPECT_EQ(*sums, LiteralUtil::CreateR1<float>({600, 30, 15}));
}

TEST_P(FfiExamplesTest, StateOfATypeThatWasRegisteredAtStartUp) {
  Options options;
  options.attributes = "{start = 41 : i32}";
  options.has_side_effect = true;
  const Shape scalar = ShapeUtil::MakeShape(S32, {});
  const XlaOp first = Call(builder_, "examples.counter", {}, scalar, options);
  const XlaOp other = Call(builder_, "examples.counter", {}, scalar, options);
  xla::Tuple(&builder_, {first, other});
  std::vector<Literal> counts = Run().DecomposeTuple();
  ASSERT_EQ(counts.size(), 2u);
  EXPECT_EQ(counts[0].Get<int32_t>({}), 41);
  EXPECT_EQ(counts[1].Get<int32_t>({}), 41);
}

INSTANTIATE_TEST_SUITE_P(Clients, FfiExamplesTest,
                         ::testing::Values(&MakeLocalClientRunner,
                                           &MakePjRtRunner),
                         [](const auto& info) {
                           return info.index == 0 ? "LocalClient" : "PjRt";
                         });

// --- Registration ------------------------------------------------------------

TEST(FfiRegistrationTest, TypesAgainIsNoError) {
  const XlaFfiKit_HandlerTable* table = ffi_examples_handler_table();
  ASSERT_EQ(table->num_types, 4u);
  const int64_t id = table->types[0].type_id->type_id;
  EXPECT_GT(id, 0);
  EXPECT_EQ(table->register_all(XLA_FFI_GetApi()), nullptr);
  EXPECT_EQ(table->types[0].type_id->type_id, id);
}

// XLA's own way, which says nothing if it fails: hence the tests.
struct Answer {
  static xla::ffi::TypeId id;
};
xla::ffi::TypeId Answer::id = {};
constexpr xla::ffi::TypeInfo kAnswerInfo = xla::ffi::MakeTypeInfo<Answer>();
XLA_FFI_REGISTER_TYPE(XLA_FFI_GetApi(), "test.Answer", &Answer::id,
                      &kAnswerInfo);

XLA_FFI_DEFINE_HANDLER(
    kAnswer,
    [](xla::ffi::ResultBufferR0<xla::ffi::S32> y) {
      *y->typed_data() = 42;
      return xla::ffi::Error::Success();
    },
    xla::ffi::Ffi::Bind().Ret<xla::ffi::BufferR0<xla::ffi::S32>>());
XLA_FFI_REGISTER_HANDLER(XLA_FFI_GetApi(), "test.answer", "Host", kAnswer);

TEST(FfiRegistrationTest, StaticMacros) {
  EXPECT_GT(Answer::id.type_id, 0);
  xla::XlaBuilder builder("answer");
  Call(builder, "test.answer", {}, ShapeUtil::MakeShape(S32, {}));
  absl::StatusOr<Literal> y = MakePjRtRunner()->Run(*builder.Build(), {});
  ASSERT_TRUE(y.ok()) << y.status();
  EXPECT_EQ(y->Get<int32_t>({}), 42);
}

// --- User data ---------------------------------------------------------------

absl::StatusOr<Literal> ReadTag(Runner& runner) {
  xla::XlaBuilder builder("tag");
  Call(builder, "examples.tag", {}, ShapeUtil::MakeShape(xla::S64, {}));
  return runner.Run(*builder.Build(), {});
}

TEST(UserDataTest, OfTheRunThatCarriesIt) {
  ffi_examples::RequestTag request = {77};
  const absl::StatusOr<Literal> tag = ReadTag(*MakePjRtRunnerWithUserData(
      ffi_examples::RequestTag::id.type_id, &request));
  ASSERT_TRUE(tag.ok()) << tag.status();
  EXPECT_EQ(tag->Get<int64_t>({}), 77);
  EXPECT_THAT(ReadTag(*MakePjRtRunner()).status().ToString(),
              HasSubstr("Failed to get user data"));
}

}  // namespace
}  // namespace xla_ffi_kit
