// The kit's custom calls on CUDA in XLA computations made with XlaBuilder: the
// CUDA half of xla_builder_custom_call_test.cc. The handlers register
// themselves through //xla_ffi/registry:register_cuda.

#include <cmath>
#include <cstdint>
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
using xla::Literal;
using xla::LiteralUtil;
using xla::Shape;
using xla::ShapeUtil;

xla::XlaOp Call(xla::XlaBuilder& builder, const std::string& target,
                const std::vector<xla::XlaOp>& operands, const Shape& result,
                const std::string& attributes) {
  return xla::CustomCall(&builder, target, operands, result, attributes,
                         /*has_side_effect=*/false,
                         /*output_operand_aliasing=*/{}, /*literal=*/nullptr,
                         xla::CustomCallSchedule::SCHEDULE_NONE,
                         xla::CustomCallApiVersion::API_VERSION_TYPED_FFI);
}

class CudaCustomCallTest : public ::testing::Test {
 protected:
  void SetUp() override {
    absl::StatusOr<std::unique_ptr<Runner>> runner = MakeCudaRunner();
    if (!runner.ok()) {
      GTEST_SKIP() << "XLA has no CUDA device here: " << runner.status();
    }
    runner_ = *std::move(runner);
  }

  absl::StatusOr<Literal> Run(xla::XlaBuilder& builder,
                              const std::vector<Literal>& arguments) {
    absl::StatusOr<xla::XlaComputation> computation = builder.Build();
    if (!computation.ok()) return computation.status();
    return runner_->Run(*computation, arguments);
  }

  std::unique_ptr<Runner> runner_;
};

TEST_F(CudaCustomCallTest, ModularAddRepeatsB) {
  std::vector<float> b(128), c(2048);
  for (size_t i = 0; i < b.size(); ++i) b[i] = static_cast<float>(i);
  for (size_t i = 0; i < c.size(); ++i) c[i] = 0.5f * static_cast<float>(i);
  std::vector<Literal> arguments;
  arguments.push_back(LiteralUtil::CreateR1<float>(b));
  arguments.push_back(LiteralUtil::CreateR1<float>(c));
  xla::XlaBuilder builder("modular_add");
  Call(builder, "xla_ffi_kit.modular_add",
       {xla::Parameter(&builder, 0, arguments[0].shape(), "b"),
        xla::Parameter(&builder, 1, arguments[1].shape(), "c")},
       arguments[1].shape(), "");
  absl::StatusOr<Literal> a = Run(builder, arguments);
  ASSERT_TRUE(a.ok()) << a.status();
  for (int64_t i = 0; i < 2048; ++i) {
    ASSERT_EQ(a->Get<float>({i}), b[i % 128] + c[i]) << "element " << i;
  }
}

TEST_F(CudaCustomCallTest, ATupleResultFeedsTheBackward) {
  // y = x * scale * w over rows of 4, and the gradient of its sum.
  const Shape rows = ShapeUtil::MakeShape(F32, {3, 4});
  const Shape weight = ShapeUtil::MakeShape(F32, {4});
  const Shape scale = ShapeUtil::MakeShape(F32, {3});
  xla::XlaBuilder builder("weight");
  xla::XlaOp x = xla::Parameter(&builder, 0, rows, "x");
  xla::XlaOp w = xla::Parameter(&builder, 1, weight, "w");
  xla::XlaOp ct = xla::Parameter(&builder, 2, rows, "ct");
  xla::XlaOp forward =
      Call(builder, "xla_ffi_kit.rms_norm", {x, w},
           ShapeUtil::MakeTupleShape({rows, scale}), "{eps = 0.0 : f64}");
  // Memory for the sums of dweight, which only CUDA wants.
  const Shape workspace = ShapeUtil::MakeShape(xla::U8, {1024});
  Call(builder, "xla_ffi_kit.rms_norm_weight_bwd",
       {x, ct, xla::GetTupleElement(forward, 1), w},
       ShapeUtil::MakeTupleShape({rows, weight, workspace}), "");
  std::vector<Literal> arguments;
  arguments.push_back(LiteralUtil::CreateR2<float>(
      {{1, 2, 3, 4}, {1, -1, 1, -1}, {0, 0, 0, 2}}));
  arguments.push_back(LiteralUtil::CreateR1<float>({1, 1, 1, 1}));
  arguments.push_back(
      LiteralUtil::CreateR2<float>({{1, 1, 1, 1}, {1, 1, 1, 1}, {1, 1, 1, 1}}));
  absl::StatusOr<Literal> gradients = Run(builder, arguments);
  ASSERT_TRUE(gradients.ok()) << gradients.status();
  const float r = 1 / std::sqrt(30 / 4.0f);
  const std::vector<float> dweight = {r + 1, 2 * r - 1, 3 * r + 1,
                                      4 * r - 1 + 2};
  const std::vector<Literal> parts = gradients->DecomposeTuple();
  for (int64_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(parts[1].Get<float>({i}), dweight[i], 1e-5);
    // mean(x ct) is 10 / 4 in the first row.
    EXPECT_NEAR(parts[0].Get<float>({0, i}),
                r - static_cast<float>(i + 1) * r * r * r * 10 / 4, 1e-5);
  }
}

TEST_F(CudaCustomCallTest, ErrorsNameOperationAndOperand) {
  const Shape shape = ShapeUtil::MakeShape(xla::S32, {2});
  xla::XlaBuilder builder("wrong");
  Call(builder, "xla_ffi_kit.rms_norm",
       {xla::Parameter(&builder, 0, shape, "x")}, shape, "{eps = 0.0 : f64}");
  std::vector<Literal> arguments;
  arguments.push_back(LiteralUtil::CreateR1<int32_t>({1, 2}));
  EXPECT_THAT(Run(builder, arguments).status().ToString(),
              AllOf(HasSubstr("INVALID_ARGUMENT"),
                    HasSubstr("xla_ffi_kit.rms_norm: operand x: expected"),
                    HasSubstr("got s32")));
}

TEST(CudaRunnerTest, WithoutAGpuThereIsAnErrorAndNoCrash) {
  absl::StatusOr<std::unique_ptr<Runner>> runner = MakeCudaRunner();
  if (runner.ok()) GTEST_SKIP() << "there is a GPU";
  EXPECT_FALSE(runner.status().message().empty());
}

}  // namespace
}  // namespace xla_ffi_kit
