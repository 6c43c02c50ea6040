// The kit's custom calls in XLA computations made with XlaBuilder.
//
// The handlers register themselves through //xla_ffi/registry:register_cpu
// when this program starts; no Python is involved. Each computation runs
// through LocalClient and through the PjRt CPU client.

#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/cc/runner.h"
#include "xla/hlo/builder/xla_builder.h"
#include "xla/literal.h"
#include "xla/literal_util.h"
#include "xla/shape_util.h"

namespace xla_ffi_kit {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using xla::F32;
using xla::F64;
using xla::Literal;
using xla::LiteralUtil;
using xla::Shape;
using xla::ShapeUtil;

// A custom call to `target` with one operand per argument.
absl::StatusOr<Literal> Call(Runner& runner, const std::string& target,
                             const Shape& result, const std::string& attributes,
                             const std::vector<Literal>& arguments) {
  xla::XlaBuilder builder("custom_call");
  std::vector<xla::XlaOp> operands;
  for (const Literal& argument : arguments) {
    const auto number = static_cast<int64_t>(operands.size());
    operands.push_back(xla::Parameter(&builder, number, argument.shape(),
                                      "p" + std::to_string(number)));
  }
  xla::CustomCall(&builder, target, operands, result, attributes,
                  /*has_side_effect=*/false, /*output_operand_aliasing=*/{},
                  /*literal=*/nullptr, xla::CustomCallSchedule::SCHEDULE_NONE,
                  xla::CustomCallApiVersion::API_VERSION_TYPED_FFI);
  absl::StatusOr<xla::XlaComputation> computation = builder.Build();
  if (!computation.ok()) return computation.status();
  return runner.Run(*computation, arguments);
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
  CustomCallTest() : runner_(GetParam()()) {}

  // The text of the error that a call to rms_norm ends with.
  std::string RmsNormError(const Shape& result, const std::string& attributes,
                           Literal x) {
    return Call(*runner_, "xla_ffi_kit.rms_norm", result, attributes,
                List(std::move(x)))
        .status()
        .ToString();
  }

  std::unique_ptr<Runner> runner_;
};

TEST_P(CustomCallTest, ModularAddRepeatsB) {
  std::vector<float> b(128), c(2048);
  for (size_t i = 0; i < b.size(); ++i) b[i] = static_cast<float>(i);
  for (size_t i = 0; i < c.size(); ++i) c[i] = 0.5f * static_cast<float>(i);
  absl::StatusOr<Literal> a = Call(
      *runner_, "xla_ffi_kit.modular_add", ShapeUtil::MakeShape(F32, {2048}),
      "",
      List(LiteralUtil::CreateR1<float>(b), LiteralUtil::CreateR1<float>(c)));
  ASSERT_TRUE(a.ok()) << a.status();
  for (int64_t i = 0; i < 2048; ++i) {
    ASSERT_EQ(a->Get<float>({i}), b[i % 128] + c[i]) << "element " << i;
  }
}

TEST_P(CustomCallTest, RmsNormReadsEps) {
  for (const double eps : {0.0, 1e-5, 2.5}) {
    absl::StatusOr<Literal> y = Call(
        *runner_, "xla_ffi_kit.rms_norm", ShapeUtil::MakeShape(F32, {2, 3}),
        "{eps = " + std::to_string(eps) + " : f64}",
        List(LiteralUtil::CreateR2<float>({{1, 2, 3}, {-4, 0, 4}})));
    ASSERT_TRUE(y.ok()) << y.status();
    const double first = 1 / std::sqrt((1 + 4 + 9) / 3.0 + eps);
    const double second = 1 / std::sqrt((16 + 16) / 3.0 + eps);
    for (int64_t i = 0; i < 3; ++i) {
      EXPECT_NEAR(y->Get<float>({0, i}), (i + 1) * first, 1e-6);
      EXPECT_NEAR(y->Get<float>({1, i}), (4 * i - 4) * second, 1e-6);
    }
  }
}

TEST_P(CustomCallTest, RmsNormForwardAndBackwardShareTheScale) {
  // A tuple result, whose second element feeds another custom call.
  xla::XlaBuilder builder("forward_backward");
  const Shape row = ShapeUtil::MakeShape(F64, {1, 4});
  const Shape scale = ShapeUtil::MakeShape(F64, {1});
  xla::XlaOp x = xla::Parameter(&builder, 0, row, "x");
  xla::XlaOp ct = xla::Parameter(&builder, 1, row, "ct");
  auto call = [&](const char* target, std::vector<xla::XlaOp> operands,
                  const Shape& result, const char* attributes) {
    return xla::CustomCall(&builder, target, operands, result, attributes,
                           false, {}, nullptr,
                           xla::CustomCallSchedule::SCHEDULE_NONE,
                           xla::CustomCallApiVersion::API_VERSION_TYPED_FFI);
  };
  xla::XlaOp forward = call("xla_ffi_kit.rms_norm", {x},
                            ShapeUtil::MakeTupleShape({row, scale}), kEps);
  call("xla_ffi_kit.rms_norm_bwd", {x, ct, xla::GetTupleElement(forward, 1)},
       row, "");
  absl::StatusOr<xla::XlaComputation> computation = builder.Build();
  ASSERT_TRUE(computation.ok()) << computation.status();

  const std::vector<double> xs = {1, -2, 3, 0.5}, cts = {0.3, -1, 2, 4};
  absl::StatusOr<Literal> dx = runner_->Run(
      *computation, List(LiteralUtil::CreateR2<double>({{1, -2, 3, 0.5}}),
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

TEST_P(CustomCallTest, EmptyBatchGivesEmptyResult) {
  const Shape empty = ShapeUtil::MakeShape(F32, {0, 3});
  absl::StatusOr<Literal> y = Call(*runner_, "xla_ffi_kit.rms_norm", empty,
                                   kEps, List(Literal::CreateFromShape(empty)));
  ASSERT_TRUE(y.ok()) << y.status();
  EXPECT_EQ(y->element_count(), 0);
}

TEST_P(CustomCallTest, UnknownTarget) {
  absl::StatusOr<Literal> result = Call(
      *runner_, "xla_ffi_kit.no_such_operation", ShapeUtil::MakeShape(F32, {1}),
      "", List(LiteralUtil::CreateR1<float>({1})));
  EXPECT_THAT(result.status().ToString(),
              HasSubstr("xla_ffi_kit.no_such_operation"));
}

TEST_P(CustomCallTest, WrongDtype) {
  EXPECT_THAT(RmsNormError(ShapeUtil::MakeShape(xla::S32, {2}), kEps,
                           LiteralUtil::CreateR1<int32_t>({1, 2})),
              AllOf(HasSubstr("INVALID_ARGUMENT"),
                    HasSubstr("xla_ffi_kit.rms_norm: operand x: expected"),
                    HasSubstr("got dtype s32")));
}

TEST_P(CustomCallTest, EmptyLastAxis) {
  // XLA drops a custom call whose whole result is empty, so this one asks for
  // the scale too.
  const Shape empty = ShapeUtil::MakeShape(F32, {2, 0});
  absl::StatusOr<Literal> result =
      Call(*runner_, "xla_ffi_kit.rms_norm",
           ShapeUtil::MakeTupleShape({empty, ShapeUtil::MakeShape(F32, {2})}),
           kEps, List(Literal::CreateFromShape(empty)));
  EXPECT_THAT(result.status().ToString(),
              AllOf(HasSubstr("INVALID_ARGUMENT"),
                    HasSubstr("xla_ffi_kit.rms_norm: operand x: expected "
                              "shape (..., n), here (2, n), n of 1 or more, "
                              "got shape (2, 0)")));
}

TEST_P(CustomCallTest, WrongAttributes) {
  const Shape shape = ShapeUtil::MakeShape(F32, {2});
  for (const char* attributes :
       {"", "{eps = 1 : i64}", "{eps = -1.0 : f64}", "{epsilon = 1.0e-5 : f64}",
        "{eps = 1.0e-5 : f64, more = 1 : i32}"}) {
    EXPECT_THAT(
        RmsNormError(shape, attributes, LiteralUtil::CreateR1<float>({1, 2})),
        AllOf(HasSubstr("INVALID_ARGUMENT"),
              HasSubstr("xla_ffi_kit.rms_norm: attribute"), HasSubstr("eps"),
              HasSubstr(": expected ")))
        << attributes;
  }
}

INSTANTIATE_TEST_SUITE_P(Clients, CustomCallTest,
                         ::testing::Values(&MakeLocalClientRunner,
                                           &MakePjRtRunner),
                         [](const auto& info) {
                           return info.index == 0 ? "LocalClient" : "PjRt";
                         });

}  // namespace
}  // namespace xla_ffi_kit
