// The examples of attributes and of errors, with call frames.

#include <complex>
#include <cstdint>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "xla/ffi/api/ffi.h"
#include "xla_ffi/testing/call_frame.h"

XLA_FFI_DECLARE_HANDLER_SYMBOL(ExampleArrays);
XLA_FFI_DECLARE_HANDLER_SYMBOL(ExampleAutoAffine);
XLA_FFI_DECLARE_HANDLER_SYMBOL(ExampleAutoRunId);
XLA_FFI_DECLARE_HANDLER_SYMBOL(ExampleAutoSum);
XLA_FFI_DECLARE_HANDLER_SYMBOL(ExampleComplexScalars);
XLA_FFI_DECLARE_HANDLER_SYMBOL(ExampleFail);
XLA_FFI_DECLARE_HANDLER_SYMBOL(ExampleLookup);
XLA_FFI_DECLARE_HANDLER_SYMBOL(ExamplePolynomial);
XLA_FFI_DECLARE_HANDLER_SYMBOL(ExampleScalars);
XLA_FFI_DECLARE_HANDLER_SYMBOL(ExampleTrace);
XLA_FFI_DECLARE_HANDLER_SYMBOL(ExampleWindow);

namespace ffi_examples {
namespace {

using ::xla_ffi_kit::testing::Attributes;
using ::xla_ffi_kit::testing::CallFrame;
using ::xla_ffi_kit::testing::Status;

using Doubles = std::vector<double>;

bool Contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

CallFrame ScalarsFrame(Doubles& y) {
  return CallFrame()
      .Ret(y, {12})
      .Attr("pred", true)
      .Attr("s8", int8_t{-8})
      .Attr("s16", int16_t{-16})
      .Attr("s32", int32_t{-32})
      .Attr("s64", int64_t{-64})
      .Attr("u8", uint8_t{8})
      .Attr("u16", uint16_t{16})
      .Attr("u32", uint32_t{32})
      .Attr("u64", uint64_t{64})
      .Attr("f32", 0.5f)
      .Attr("f64", 0.25)
      .Attr("text", "hello");
}

TEST(AttributesTest, ScalarsOfEveryType) {
  Doubles y(12);
  EXPECT_EQ(ScalarsFrame(y).Run(ExampleScalars).message, "");
  EXPECT_EQ(y, (Doubles{1, -8, -16, -32, -64, 8, 16, 32, 64, 0.5, 0.25, 5}));
  y.resize(4);
  EXPECT_EQ(CallFrame()
                .Ret(y, {4})
                .Attr("c64", std::complex<float>(1, 2))
                .Attr("c128", std::complex<double>(3, -4))
                .Run(ExampleComplexScalars)
                .message,
            "");
  EXPECT_EQ(y, (Doubles{1, 2, 3, -4}));
}

TEST(AttributesTest, MissingAdditionalAndWrongOnes) {
  Doubles y(12);
  CallFrame frame = ScalarsFrame(y);
  frame.attributes().Remove("u8");
  EXPECT_TRUE(Contains(frame.Run(ExampleScalars).message,
                       "Wrong number of attributes: expected 12 but got 11"));
  frame.Attr("u9", uint8_t{8});
  EXPECT_FALSE(frame.Run(ExampleScalars).ok());
  for (const std::string& name : ScalarsFrame(y).attributes().names()) {
    frame = ScalarsFrame(y);
    frame.Attr(name, std::vector<float>{1});
    EXPECT_TRUE(
        Contains(frame.Run(ExampleScalars).message, "Wrong attribute type"))
        << name;
  }
}

TEST(AttributesTest, ArraysOfEveryType) {
  Doubles y(10);
  CallFrame frame = CallFrame()
                        .Ret(y, {10})
                        .Attr("s8", std::vector<int8_t>{-1, -2})
                        .Attr("s16", std::vector<int16_t>{1})
                        .Attr("s32", std::vector<int32_t>{2})
                        .Attr("s64", std::vector<int64_t>{3})
                        .Attr("u8", std::vector<uint8_t>{255, 255})
                        .Attr("u16", std::vector<uint16_t>{5})
                        .Attr("u32", std::vector<uint32_t>{6})
                        .Attr("u64", std::vector<uint64_t>{})
                        .Attr("f32", std::vector<float>{0.5f, 1})
                        .Attr("f64", std::vector<double>{0.25, 1});
  EXPECT_EQ(frame.Run(ExampleArrays).message, "");
  EXPECT_EQ(y, (Doubles{-3, 1, 2, 3, 510, 5, 6, 0, 1.5, 1.25}));
  frame.Attr("s8", std::vector<uint8_t>{1});
  EXPECT_TRUE(Contains(frame.Run(ExampleArrays).message,
                       "Wrong array data type: expected S8 but got U8"));
}

TEST(DictionaryTest, NestedAndWithDefaults) {
  Doubles x = {0, 1, 2}, y(3);
  CallFrame frame =
      CallFrame().Arg(x, {3}).Ret(y, {3}).Attr("x0", 1.0).Attr("x2", 2.0);
  EXPECT_EQ(frame.Run(ExamplePolynomial).message, "");
  EXPECT_EQ(y, (Doubles{1, 3, 9}));
  frame.Attr("options", Attributes()
                            .Set("shift", 1.0)
                            .Set("output", Attributes().Set("scale", 10.0)));
  EXPECT_EQ(frame.Run(ExamplePolynomial).message, "");
  EXPECT_EQ(y, (Doubles{30, 90, 190}));
}

TEST(DictionaryTest, WrongTypesAtEveryDepth) {
  Doubles x = {0}, y(1);
  CallFrame frame = CallFrame().Arg(x, {1}).Ret(y, {1});
  frame.Attr("options", 1.0);
  EXPECT_FALSE(frame.Run(ExamplePolynomial).ok());
  frame.Attr("options", Attributes().Set("shift", "far"));
  EXPECT_FALSE(frame.Run(ExamplePolynomial).ok());
  frame.Attr("options", Attributes().Set("output", 1.0));
  EXPECT_FALSE(frame.Run(ExamplePolynomial).ok());
  frame.Attr("options",
             Attributes().Set("output", Attributes().Set("scale", 1.0f)));
  EXPECT_TRUE(Contains(frame.Run(ExamplePolynomial).message,
                       "Wrong scalar data type: expected F64 but got F32"));
  frame.attributes().Remove("options").Set("x1", 1.0f);
  EXPECT_EQ(frame.Run(ExamplePolynomial).message,
            "examples.polynomial: attribute x1: expected x<k>, a scalar f64");
}

CallFrame WindowFrame(Doubles& x, Doubles& y, uint8_t kind) {
  return CallFrame()
      .Arg(x, {3})
      .Ret(y, {3})
      .Attr("window", Attributes().Set("size", int64_t{2}).Set("edge", 7.0))
      .Attr("kind", kind)
      .Attr("pad", "edge");
}

TEST(StructsTest, StructEnumAndVariant) {
  Doubles x = {1, 5, 3}, y(3);
  EXPECT_EQ(WindowFrame(x, y, 1).Run(ExampleWindow).message, "");
  EXPECT_EQ(y, (Doubles{5, 5, 7}));
  EXPECT_EQ(WindowFrame(x, y, 2).Attr("pad", 0.0).Run(ExampleWindow).message,
            "");
  EXPECT_EQ(y, (Doubles{1, 3, 0}));
  EXPECT_EQ(WindowFrame(x, y, 0).Attr("pad", 9.0).Run(ExampleWindow).message,
            "");
  EXPECT_EQ(y, (Doubles{3, 4, 6}));
}

TEST(StructsTest, WhatDoesNotFit) {
  Doubles x = {1, 5, 3}, y(3);
  EXPECT_FALSE(WindowFrame(x, y, 3).Run(ExampleWindow).ok());
  const auto error = [&](const std::string& name, auto value) {
    return WindowFrame(x, y, 0).Attr(name, value).Run(ExampleWindow).message;
  };
  EXPECT_TRUE(Contains(error("kind", int32_t{1}), "expected U8 but got S32"));
  EXPECT_TRUE(Contains(error("pad", 1.0f), "any of the variant types"));
  EXPECT_TRUE(Contains(error("window", 1.0), "expected dictionary"));
  EXPECT_TRUE(Contains(error("window", Attributes().Set("edge", 1.0)),
                       "Wrong number of attributes: expected 2"));
}

TEST(PointerTest, ReadsATable) {
  struct {
    const double* values;
    int64_t size;
  } table;
  const Doubles values = {10, 20, 30};
  table = {values.data(), 3};
  std::vector<int32_t> i = {2, 0};
  Doubles y(2);
  CallFrame frame =
      CallFrame().Arg(i, {2}).Ret(y, {2}).PointerAttr("table", &table);
  EXPECT_EQ(frame.Run(ExampleLookup).message, "");
  EXPECT_EQ(y, (Doubles{30, 10}));
  i[1] = -1;
  EXPECT_EQ(frame.Run(ExampleLookup).code, XLA_FFI_Error_Code_OUT_OF_RANGE);
  EXPECT_FALSE(frame.PointerAttr("table", nullptr).Run(ExampleLookup).ok());
}

TEST(AutoBindingTest, BindsFromTheSignature) {
  Doubles x = {0, 1}, y(2), sum(1);
  EXPECT_EQ(CallFrame()
                .Arg(x, {2})
                .Ret(y, {2})
                .Attr("slope", 2.0)
                .Attr("offset", 1.0)
                .Run(ExampleAutoAffine)
                .message,
            "");
  EXPECT_EQ(y, (Doubles{1, 3}));
  std::vector<int64_t> run(1);
  EXPECT_TRUE(CallFrame().Ret(run, {}).RunId(9).Run(ExampleAutoRunId).ok());
  EXPECT_EQ(run[0], 9);
  CallFrame terms = CallFrame().Ret(sum, {}).Attr("a", 1.0).Attr("b", 2.0);
  EXPECT_TRUE(terms.Run(ExampleAutoSum).ok());
  EXPECT_EQ(sum[0], 3);
  EXPECT_FALSE(terms.Attr("b", 2.0f).Run(ExampleAutoSum).ok());
}

XLA_FFI_DEFINE_HANDLER_AUTO(
    kHalve, +[](::xla::ffi::Buffer<::xla::ffi::F64> x,
                ::xla::ffi::ResultBuffer<::xla::ffi::F64> y) {
      y->typed_data()[0] = x.typed_data()[0] / 2;
      return ::xla::ffi::Error::Success();
    });

TEST(AutoBindingTest, AsAStaticVariable) {
  Doubles x = {3}, y(1);
  EXPECT_TRUE(CallFrame().Arg(x, {}).Ret(y, {}).Run(kHalve).ok());
  EXPECT_EQ(y[0], 1.5);
}

TEST(CustomDecodingTest, MatrixAndUnit) {
  std::vector<float> m = {1, 2, 3, 4}, trace(1);
  CallFrame frame =
      CallFrame().Arg(m, {2, 2}).Ret(trace, {}).Attr("unit", "metre");
  EXPECT_EQ(frame.Run(ExampleTrace).message, "");
  EXPECT_EQ(trace[0], 5);
  EXPECT_TRUE(frame.Attr("unit", "inch").Run(ExampleTrace).ok());
  EXPECT_FLOAT_EQ(trace[0], 5 / 0.0254f);
  EXPECT_TRUE(Contains(frame.Attr("unit", "mile").Run(ExampleTrace).message,
                       "expected the unit metre or inch, got mile"));
  frame.args()[0].dims = {4, 1};
  EXPECT_TRUE(Contains(frame.Run(ExampleTrace).message,
                       "expected a square matrix, got 4 x 1"));
}

TEST(AutoBindingTest, BindToTakesCallablesWithState) {
  namespace ffi = ::xla::ffi;
  double total = 0;
  const auto handler = ffi::Ffi::BindTo(
      [&total](ffi::Buffer<ffi::F64> x) {
        total += x.typed_data()[0];
        return ffi::Error::Success();
      },
      {ffi::Traits::kCmdBufferCompatible});
  static const ffi::Ffi* called;
  called = handler.get();
  Doubles x = {2.5};
  CallFrame frame = CallFrame().Arg(x, {});
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(
        frame.Run([](XLA_FFI_CallFrame* f) { return called->Call(f); }).ok());
  }
  EXPECT_EQ(total, 5);
}

TEST(ErrorsTest, EveryCode) {
  std::vector<int32_t> y(1);
  for (int32_t code = 0; code <= XLA_FFI_Error_Code_UNAUTHENTICATED; ++code) {
    const Status status = CallFrame()
                              .Ret(y, {})
                              .Attr("code", code)
                              .Attr("message", "why")
                              .Run(ExampleFail);
    EXPECT_EQ(status.code, code);
    EXPECT_EQ(status.message, code == 0 ? "" : "why");
  }
  EXPECT_EQ(CallFrame()
                .Ret(y, {})
                .Attr("code", int32_t{17})
                .Attr("message", "")
                .Run(ExampleFail)
                .message,
            "examples.fail: attribute code: expected -1 to 16, got 17");
}

TEST(ErrorsTest, Exception) {
  std::vector<int32_t> y(1);
  const Status status = CallFrame()
                            .Ret(y, {})
                            .Attr("code", int32_t{-1})
                            .Attr("message", "thrown")
                            .Run(ExampleFail);
  EXPECT_EQ(status.code, XLA_FFI_Error_Code_UNKNOWN);
  EXPECT_EQ(status.message, "XLA FFI call failed: thrown");
}

}  // namespace
}  // namespace ffi_examples
