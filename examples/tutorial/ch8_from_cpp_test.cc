// Handlers in XLA computations made with XlaBuilder, without Python: chapter 8
// of docs/tutorial.

#include <cstdint>
#include <numeric>
#include <tuple>
#include <vector>

#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "xla/client/client_library.h"
#include "xla/client/local_client.h"
#include "xla/ffi/api/ffi.h"
#include "xla/ffi/ffi_api.h"
#include "xla/hlo/builder/xla_builder.h"
#include "xla/literal.h"
#include "xla/literal_util.h"
#include "xla/shape_util.h"

namespace {

namespace ffi = xla::ffi;

// a[i] = b[i % size of b] + scale * c[i].
ffi::Error ModularAddImpl(float scale, ffi::BufferR1<ffi::F32> b,
                          ffi::BufferR1<ffi::F32> c,
                          ffi::ResultBufferR1<ffi::F32> a) {
  if (b.element_count() == 0) {
    return ffi::Error::InvalidArgument("modular_add: operand b is empty");
  }
  for (size_t i = 0; i < c.element_count(); ++i) {
    a->typed_data()[i] =
        b.typed_data()[i % b.element_count()] + scale * c.typed_data()[i];
  }
  return ffi::Error::Success();
}

XLA_FFI_DEFINE_HANDLER(kModularAdd, ModularAddImpl,
                       ffi::Ffi::Bind()
                           .Attr<float>("scale")
                           .Arg<ffi::BufferR1<ffi::F32>>()    // b
                           .Arg<ffi::BufferR1<ffi::F32>>()    // c
                           .Ret<ffi::BufferR1<ffi::F32>>());  // a
XLA_FFI_REGISTER_HANDLER(XLA_FFI_GetApi(), "tutorial.modular_add", "Host",
                         kModularAdd);

// (b, c) -> (b + c, b - c), for scalars.
ffi::Error SumAndDifferenceImpl(ffi::BufferR0<ffi::F32> b,
                                ffi::BufferR0<ffi::F32> c,
                                ffi::ResultBufferR0<ffi::F32> sum,
                                ffi::ResultBufferR0<ffi::F32> difference) {
  *sum->typed_data() = *b.typed_data() + *c.typed_data();
  *difference->typed_data() = *b.typed_data() - *c.typed_data();
  return ffi::Error::Success();
}

XLA_FFI_DEFINE_HANDLER(kSumAndDifference, SumAndDifferenceImpl,
                       ffi::Ffi::Bind()
                           .Arg<ffi::BufferR0<ffi::F32>>()    // b
                           .Arg<ffi::BufferR0<ffi::F32>>()    // c
                           .Ret<ffi::BufferR0<ffi::F32>>()    // sum
                           .Ret<ffi::BufferR0<ffi::F32>>());  // difference
XLA_FFI_REGISTER_HANDLER(XLA_FFI_GetApi(), "tutorial.sum_and_difference",
                         "Host", kSumAndDifference);

xla::XlaOp Call(xla::XlaBuilder& builder, const char* target,
                std::vector<xla::XlaOp> operands, const xla::Shape& result,
                const char* attributes) {
  return xla::CustomCall(&builder, target, operands, result,
                         /*opaque=*/attributes, /*has_side_effect=*/false,
                         /*output_operand_aliasing=*/{}, /*literal=*/nullptr,
                         xla::CustomCallSchedule::SCHEDULE_NONE,
                         xla::CustomCallApiVersion::API_VERSION_TYPED_FFI);
}

absl::StatusOr<xla::Literal> RunOnCpu(xla::XlaBuilder& builder) {
  return xla::ClientLibrary::LocalClientOrDie()->ExecuteAndTransfer(
      *builder.Build(), {});
}

std::vector<float> Iota(int64_t size) {
  std::vector<float> values(size);
  std::iota(values.begin(), values.end(), 0.0f);
  return values;
}

TEST(FromCppTest, AttributesAndShapes) {
  ASSERT_TRUE(ffi::FindHandler("tutorial.modular_add", "Host").ok());
  xla::XlaBuilder builder("modular_add");
  const xla::XlaOp b = xla::ConstantR1<float>(&builder, Iota(128));
  const xla::XlaOp c = xla::ConstantR1<float>(&builder, Iota(2048));
  Call(builder, "tutorial.modular_add", {b, c},
       xla::ShapeUtil::MakeShape(xla::F32, {2048}), "{scale = 2.0 : f32}");
  const absl::StatusOr<xla::Literal> a = RunOnCpu(builder);
  ASSERT_TRUE(a.ok()) << a.status();
  for (int64_t i = 0; i < 2048; ++i) {
    ASSERT_EQ(a->Get<float>({i}), static_cast<float>(i % 128 + 2 * i)) << i;
  }
}

TEST(FromCppTest, TuplesAreFlattened) {
  xla::XlaBuilder builder("tuples");
  const xla::XlaOp pair =
      xla::Tuple(&builder, {xla::ConstantR0<float>(&builder, 5),
                            xla::ConstantR0<float>(&builder, 3)});
  const xla::Shape scalar = xla::ShapeUtil::MakeShape(xla::F32, {});
  Call(builder, "tutorial.sum_and_difference", {pair},
       xla::ShapeUtil::MakeTupleShape({scalar, scalar}), "");
  absl::StatusOr<xla::Literal> results = RunOnCpu(builder);
  ASSERT_TRUE(results.ok()) << results.status();
  const std::vector<xla::Literal> parts = results->DecomposeTuple();
  EXPECT_EQ(parts[0].Get<float>({}), 8);
  EXPECT_EQ(parts[1].Get<float>({}), 2);
}

TEST(FromCppTest, ErrorsOfTheHandlerAndOfItsBinding) {
  for (const auto& [attributes, size, says] :
       {std::tuple("{scale = 2.0 : f32}", 0, "modular_add: operand b is empty"),
        std::tuple("{scale = 2.0 : f64}", 1, "Wrong scalar data type"),
        std::tuple("", 1, "Wrong number of attributes")}) {
    xla::XlaBuilder builder("errors");
    const xla::XlaOp b = xla::ConstantR1<float>(&builder, Iota(size));
    const xla::XlaOp c = xla::ConstantR1<float>(&builder, Iota(4));
    Call(builder, "tutorial.modular_add", {b, c},
         xla::ShapeUtil::MakeShape(xla::F32, {4}), attributes);
    EXPECT_THAT(RunOnCpu(builder).status().ToString(),
                ::testing::HasSubstr(says));
  }
}

// With //xla_ffi/registry:register_cpu the kit's operations are there too.
TEST(FromCppTest, AnOperationOfTheKit) {
  const xla::Shape shape = xla::ShapeUtil::MakeShape(xla::F32, {1, 2});
  xla::XlaBuilder builder("example");
  xla::XlaOp x = xla::Parameter(&builder, 0, shape, "x");
  xla::CustomCall(&builder, "xla_ffi_kit.rms_norm", {x}, shape,
                  /*opaque=*/"{eps = 1.0e-6 : f64}", false, {}, nullptr,
                  xla::CustomCallSchedule::SCHEDULE_NONE,
                  xla::CustomCallApiVersion::API_VERSION_TYPED_FFI);
  xla::LocalClient* client = xla::ClientLibrary::LocalClientOrDie();
  auto input = xla::LiteralUtil::CreateR2<float>({{3, 4}});
  auto argument = client->TransferToServer(input).value();
  auto y = client->ExecuteAndTransfer(*builder.Build(), {argument.get()});
  ASSERT_TRUE(y.ok()) << y.status();
  EXPECT_NEAR(y->Get<float>({0, 0}), 0.848528, 1e-5);
  EXPECT_NEAR(y->Get<float>({0, 1}), 1.131371, 1e-5);
}

}  // namespace
