// Custom calls in XLA computations made with XlaBuilder: the kit's, which
// register themselves through //xla_ffi/registry:register_cpu when this program
// starts, and of the examples of examples/ffi what JAX cannot express. No
// Python is involved. Each computation runs through LocalClient and through the
// PjRt CPU client.

#include <cmath>
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

using ::testing::AllOf;
using ::testing::HasSubstr;
using xla::F32;
using xla::F64;
using xla::Literal;
using xla::LiteralUtil;
using xla::S32;
using xla::Shape;
using xla::ShapeUtil;
using xla::XlaOp;

XlaOp Call(xla::XlaBuilder& builder, const std::string& target,
           const std::vector<XlaOp>& operands, const Shape& result,
           const std::string& attributes = "", bool has_side_effect = false) {
  return xla::CustomCall(&builder, target, operands, result, attributes,
                         has_side_effect, /*output_operand_aliasing=*/{},
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

std::vector<Literal> List(Literal first) {
  std::vector<Literal> list;
  list.push_back(std::move(first));
  return list;
}

std::vector<Literal> List(Literal first, Literal second) {
  std::vector<Literal> list = List(std::move(first));
  list.push_back(std::move(second));
  return list;
}

constexpr char kEps[] = "{eps = 1.0e-5 : f64}";

class CustomCallTest
    : public ::testing::TestWithParam<std::unique_ptr<Runner> (*)()> {
 protected:
  CustomCallTest() : builder_("custom_calls"), runner_(GetParam()()) {}

  // Runs what builder_ holds, whose result is its last operation.
  absl::StatusOr<Literal> Run(const std::vector<Literal>& arguments = {}) {
    absl::StatusOr<xla::XlaComputation> computation = builder_.Build();
    if (!computation.ok()) return computation.status();
    return runner_->Run(*computation, arguments);
  }

  // The text of the error that a call of one operand ends with.
  std::string ErrorOf(const std::string& target, const Shape& result,
                      const std::string& attributes, Literal x) {
    xla::XlaBuilder builder("error");
    Call(builder, target, {xla::Parameter(&builder, 0, x.shape(), "x")}, result,
         attributes);
    return runner_->Run(*builder.Build(), List(std::move(x)))
        .status()
        .ToString();
  }

  xla::XlaBuilder builder_;
  std::unique_ptr<Runner> runner_;
};

TEST_P(CustomCallTest, ModularAddRepeatsB) {
  const std::vector<float> b = Iota(128), c = Iota(2048);
  Call(builder_, "xla_ffi_kit.modular_add",
       {xla::ConstantR1<float>(&builder_, b),
        xla::ConstantR1<float>(&builder_, c)},
       Vector(F32, 2048));
  absl::StatusOr<Literal> a = Run();
  ASSERT_TRUE(a.ok()) << a.status();
  for (int64_t i = 0; i < 2048; ++i) {
    ASSERT_EQ(a->Get<float>({i}), b[i % 128] + c[i]) << "element " << i;
  }
}

TEST_P(CustomCallTest, RmsNormForwardAndBackwardShareTheScale) {
  // A tuple result, whose second element feeds another custom call.
  const Shape row = ShapeUtil::MakeShape(F64, {1, 4});
  const XlaOp x = xla::Parameter(&builder_, 0, row, "x");
  const XlaOp ct = xla::Parameter(&builder_, 1, row, "ct");
  const XlaOp forward =
      Call(builder_, "xla_ffi_kit.rms_norm", {x},
           ShapeUtil::MakeTupleShape({row, Vector(F64, 1)}), kEps);
  Call(builder_, "xla_ffi_kit.rms_norm_bwd",
       {x, ct, xla::GetTupleElement(forward, 1)}, row);
  const std::vector<double> xs = {1, -2, 3, 0.5}, cts = {0.3, -1, 2, 4};
  absl::StatusOr<Literal> dx =
      Run(List(LiteralUtil::CreateR2<double>({{1, -2, 3, 0.5}}),
               LiteralUtil::CreateR2<double>({{0.3, -1, 2, 4}})));
  ASSERT_TRUE(dx.ok()) << dx.status();
  double squares = 0, products = 0;
  for (int i = 0; i < 4; ++i) {
    squares += xs[i] * xs[i];
    products += xs[i] * cts[i];
  }
  const double r = 1 / std::sqrt(squares / 4 + 1e-5);
  for (int64_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(dx->Get<double>({0, i}),
                r * cts[i] - xs[i] * r * r * r * products / 4, 1e-14);
  }
}

TEST_P(CustomCallTest, UnknownTarget) {
  EXPECT_THAT(ErrorOf("xla_ffi_kit.no_such_operation", Vector(F32, 1), "",
                      LiteralUtil::CreateR1<float>({1})),
              HasSubstr("xla_ffi_kit.no_such_operation"));
}

TEST_P(CustomCallTest, EmptyLastAxis) {
  // XLA drops a custom call whose whole result is empty, so this one asks for
  // the scale too.
  const Shape empty = ShapeUtil::MakeShape(F32, {2, 0});
  EXPECT_THAT(ErrorOf("xla_ffi_kit.rms_norm",
                      ShapeUtil::MakeTupleShape({empty, Vector(F32, 2)}), kEps,
                      Literal::CreateFromShape(empty)),
              AllOf(HasSubstr("INVALID_ARGUMENT"),
                    HasSubstr("xla_ffi_kit.rms_norm: operand x: expected "
                              "shape (..., n), here (2, n), n of 1 or more, "
                              "got shape (2, 0)")));
}

TEST_P(CustomCallTest, WrongAttributes) {
  for (const char* attributes :
       {"", "{eps = 1 : i64}", "{eps = -1.0 : f64}", "{epsilon = 1.0e-5 : f64}",
        "{eps = 1.0e-5 : f64, more = 1 : i32}"}) {
    EXPECT_THAT(ErrorOf("xla_ffi_kit.rms_norm", Vector(F32, 2), attributes,
                        LiteralUtil::CreateR1<float>({1, 2})),
                AllOf(HasSubstr("INVALID_ARGUMENT"),
                      HasSubstr("xla_ffi_kit.rms_norm: attribute"),
                      HasSubstr("eps"), HasSubstr(": expected ")))
        << attributes;
  }
}

// a, (b, c) -> ((sums), scratch): the handler sees a, b, c, sums, scratch.
TEST_P(CustomCallTest, NestedTuplesAreFlattened) {
  const XlaOp a = xla::ConstantR1<float>(&builder_, Iota(32));
  const XlaOp b = xla::ConstantR1<float>(&builder_, Iota(64));
  const XlaOp c = xla::ConstantR1<float>(&builder_, Iota(128));
  const Shape result = ShapeUtil::MakeTupleShape(
      {ShapeUtil::MakeTupleShape({Vector(F32, 3)}), Vector(F32, 64)});
  const XlaOp call = Call(builder_, "examples.tuple_sums",
                          {a, xla::Tuple(&builder_, {b, c})}, result);
  // The second element is memory to work in: nobody reads it.
  xla::GetTupleElement(xla::GetTupleElement(call, 0), 0);
  const absl::StatusOr<Literal> sums = Run();
  ASSERT_TRUE(sums.ok()) << sums.status();
  ASSERT_EQ(sums->element_count(), 3);
  EXPECT_EQ(sums->Get<float>({0}), 31 * 32 / 2);
  EXPECT_EQ(sums->Get<float>({1}), 63 * 64 / 2);
  EXPECT_EQ(sums->Get<float>({2}), 127 * 128 / 2);
}

TEST_P(CustomCallTest, StateOfATypeThatWasRegisteredAtStartUp) {
  const auto counter = [&] {
    return Call(builder_, "examples.counter", {}, ShapeUtil::MakeShape(S32, {}),
                "{start = 41 : i32}", /*has_side_effect=*/true);
  };
  const XlaOp first = counter();
  xla::Tuple(&builder_, {first, counter()});
  absl::StatusOr<Literal> both = Run();
  ASSERT_TRUE(both.ok()) << both.status();
  const std::vector<Literal> counts = both->DecomposeTuple();
  ASSERT_EQ(counts.size(), 2u);
  EXPECT_EQ(counts[0].Get<int32_t>({}), 41);
  EXPECT_EQ(counts[1].Get<int32_t>({}), 41);
}

INSTANTIATE_TEST_SUITE_P(Clients, CustomCallTest,
                         ::testing::Values(&MakeLocalClientRunner,
                                           &MakePjRtRunner),
                         [](const auto& info) {
                           return info.index == 0 ? "LocalClient" : "PjRt";
                         });

// A nested tuple as one parameter (a, (b, c)), which PjRt has no buffer for.
TEST(LocalClientTest, NestedTupleParameterIsFlattened) {
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
  absl::StatusOr<Literal> sums = MakeLocalClientRunner()->Run(
      *computation,
      List(LiteralUtil::MakeTupleOwned(
          LiteralUtil::CreateR1<float>({100, 200, 300}), std::move(inner))));
  ASSERT_TRUE(sums.ok()) << sums.status();
  EXPECT_EQ(*sums, LiteralUtil::CreateR1<float>({600, 30, 15}));
}

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
