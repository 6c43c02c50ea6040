// Calls through typed keys: what is decoded, and the sentence of every refusal.
// tests/build/signature_mistakes_test.py has what does not compile.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "gtest/gtest.h"
#include "xla_ffi/core/call.h"
#include "xla_ffi/core/handler.h"
#include "xla_ffi/testing/call_frame.h"

namespace xla_ffi_kit {
namespace {

using testing::CallFrame;
namespace ffi = ::xla::ffi;

constexpr Operand x{"x", TypeList<float, double>(), "(..., n)"};
constexpr Operand w{"w", SameDtype(x), "(n, 2)"};
constexpr Result y{"y", x};
constexpr Result i{"i", TypeList<int32_t>(), "(..., count)"};
constexpr Axis axis{"axis", x, 2, int64_t{1} << 31};
constexpr auto count = Attribute<int64_t>{"count"}.Between(0, 9);
constexpr Word mode{"mode", "fast", "exact", "any"};
constexpr auto strides =
    Attribute<Dimensions>{"strides"}.Elements(2).Between(1, int64_t{1} << 30);
constexpr char kSigned[] = "test.signed";
// In any order.
using SignedCall = Call<kSigned, strides, y, x, axis, count, mode, w, i>;

// Writes what it was called with.
ffi::Error Run(const SignedCall& call, const Executor&) {
  static_assert(std::is_same_v<decltype(call.get<axis>()), int64_t>);
  static_assert(std::is_same_v<decltype(call.get<mode>()), size_t>);
  static_assert(
      std::is_same_v<decltype(call.get<x>().as<float>()), const float*>);
  if (call.get<count>() == 7) return call.Invalid<count>("no 7", "7");
  if (call.get<count>() == 8) return call.Invalid<y>("another", "this");
  EXPECT_EQ(call.get<w>().bytes(), call.get<w>().count() * sizeof(float));
  call.get<y>().as<float>()[0] = call.get<x>().as<float>()[0];
  call.get<i>().as<int32_t>()[0] =
      static_cast<int32_t>(1000 * call.get<axis>() + 100 * call.get<mode>() +
                           10 * call.get<strides>()[1] + call.get<count>());
  return {};
}
XLA_FFI_DEFINE_HANDLER(kHandler, Checked<Run>, BindCall<Run>());

struct Frame : CallFrame {
  Frame() {
    Arg(x_data, {1, 2}).Arg(w_data, {2, 2}).Ret(y_data, {1, 2});
    Ret(i_data, {1, 3});
    Attr("axis", int64_t{1}).Attr("count", int64_t{3}).Attr("mode", "exact");
    Attr("strides", std::vector<int64_t>{1, 2});
  }
  std::vector<float> x_data = {5, 6}, w_data = {1, 2, 3, 4}, y_data = {0, 0};
  std::vector<int32_t> i_data = {0, 0, 0};
};

TEST(SignatureTest, ACallThatFitsIsDecoded) {
  Frame frame;
  ASSERT_EQ(frame.Run(kHandler).message, "");
  EXPECT_EQ(frame.y_data[0], 5);
  EXPECT_EQ(frame.i_data[0], 1123);
}

TEST(SignatureTest, AnyOtherIsRefused) {
  const struct {
    std::function<void(Frame&)> change;
    std::string error;
  } cases[] = {
      {[](Frame& f) { f.args().pop_back(); },
       "operands: expected x, w, got 1 of them"},
      {[](Frame& f) { f.rets().pop_back(); },
       "results: expected y, i, got 1 of them"},
      {[](Frame& f) { f.attributes().Remove("count"); },
       "attributes: expected {axis, count, mode, strides}, got {axis, mode, "
       "strides}"},
      {[](Frame& f) { f.Attr("axis", 1.0); },
       "attribute axis: expected a scalar s64, got another type"},
      {[](Frame& f) { f.Attr("mode", int64_t{1}); },
       "attribute mode: expected a string, got another type"},
      {[](Frame& f) { f.Attr("strides", int64_t{1}); },
       "attribute strides: expected an array of s64, got another type"},
      {[](Frame& f) { f.Attr("axis", int64_t{2}); },
       "attribute axis: expected 0 to 1, got 2"},
      {[](Frame& f) { f.Attr("axis", int64_t{-1}); },
       "attribute axis: expected 0 to 1, got -1"},
      {[](Frame& f) { f.Attr("axis", int64_t{0}); },
       "operand x: expected 2 to 2^31 elements along axis 0, got shape (1, "
       "2)"},
      {[](Frame& f) { f.Attr("count", int64_t{9}); },
       "result i: expected shape (..., count), here (1, 9), got shape (1, 3)"},
      {[](Frame& f) {
         f.Attr("count", int64_t{10});
         f.rets()[1].dims = {1, 10};
       },
       "attribute count: expected 0 to 9, got 10"},
      {[](Frame& f) { f.Attr("mode", "slow"); },
       "attribute mode: expected fast, exact or any, got slow"},
      {[](Frame& f) { f.Attr("strides", std::vector<int64_t>{1}); },
       "attribute strides: expected 2 elements, got 1"},
      {[](Frame& f) { f.Attr("strides", std::vector<int64_t>{1, 0}); },
       "attribute strides: expected 1 to 2^30, got 0"},
      {[](Frame& f) { f.args()[0].dims = {}; },
       "operand x: expected shape (..., n), got shape ()"},
      {[](Frame& f) { f.args()[0].dtype = XLA_FFI_DataType_S32; },
       "operand x: expected one of the dtypes f32, f64, got dtype s32"},
      {[](Frame& f) { f.args()[0].data = nullptr; },
       "operand x: expected data of shape (1, 2), got null"},
      {[](Frame& f) { f.args()[1].dims = {1}; },
       "operand w: expected shape (n, 2), here (2, 2), got shape (1)"},
      {[](Frame& f) { f.args()[1].dims = {2, 3}; },
       "operand w: expected shape (n, 2), here (2, 2), got shape (2, 3)"},
      {[](Frame& f) { f.args()[1].dtype = XLA_FFI_DataType_F64; },
       "operand w: expected dtype f32 like operand x, got dtype f64"},
      {[](Frame& f) { f.rets()[0].dims = {2, 1}; },
       "result y: expected shape (1, 2) like operand x, got shape (2, 1)"},
      {[](Frame& f) { f.rets()[1].dims = {3}; },
       "result i: expected shape (..., count), here (1, 3), got shape (3)"},
      {[](Frame& f) { f.rets()[1].dtype = XLA_FFI_DataType_S64; },
       "result i: expected dtype s32, got dtype s64"},
      // What the handler itself refuses.
      {[](Frame& f) {
         f.Attr("count", int64_t{7});
         f.rets()[1].dims = {1, 7};
       },
       "attribute count: expected no 7, got 7"},
      {[](Frame& f) {
         f.Attr("count", int64_t{8});
         f.rets()[1].dims = {1, 8};
       },
       "result y: expected another, got this"},
  };
  for (const auto& c : cases) {
    Frame frame;
    c.change(frame);
    const testing::Status status = frame.Run(kHandler);
    EXPECT_EQ(status.code, XLA_FFI_Error_Code_INVALID_ARGUMENT);
    EXPECT_EQ(status.message, "test.signed: " + c.error);
  }
}

// --- Numbers -----------------------------------------------------------------

template <typename ItsCall>
ffi::Error DoNothing(const ItsCall&, const Executor&) {
  return {};
}
constexpr Operand in{"in", TypeList<float>()};
constexpr Result out{"out", in};
constexpr auto byte = Attribute<uint8_t>{"byte"}.Between(1, 3);
constexpr auto huge = Attribute<uint64_t>{"huge"}.AtLeast(1);
constexpr auto integer = Attribute<int32_t>{"int"}.Between(0, 3);
constexpr auto rate = Attribute<float>{"rate"}.Between(0, 1);
constexpr auto ratio = Attribute<double>{"ratio"}.Between(0, 1);
constexpr auto step = Attribute<double>{"step"}.AtLeast(0);
constexpr char kBounded[] = "test.bounded";
using BoundedCall =
    Call<kBounded, in, out, byte, huge, integer, rate, ratio, step>;
XLA_FFI_DEFINE_HANDLER(kOfBounded, Checked<DoNothing<BoundedCall>>,
                       BindCall<DoNothing<BoundedCall>>());

TEST(SignatureTest, BoundsHoldForEveryTypeOfNumbers) {
  std::vector<float> data = {1};
  const auto error_of = [&](const std::string& name, auto value) {
    return CallFrame()
        .Arg(data, {1})
        .Ret(data, {1})
        .Attr("byte", uint8_t{1})
        .Attr("huge", ~uint64_t{0})
        .Attr("int", 0)
        .Attr("rate", 1.0f)
        .Attr("ratio", 0.5)
        .Attr("step", 0.5)
        .Attr(name, value)
        .Run(kOfBounded)
        .message;
  };
  const std::string of = "test.bounded: attribute ";
  EXPECT_EQ(error_of("int", 3), "");
  EXPECT_EQ(error_of("int", -5), of + "int: expected 0 to 3, got -5");
  EXPECT_EQ(error_of("byte", uint8_t{255}),
            of + "byte: expected 1 to 3, got 255");
  EXPECT_EQ(error_of("huge", uint64_t{0}),
            of + "huge: expected 1 or more, got 0");
  const std::string unit = ": expected a finite value from 0 to 1, got ";
  EXPECT_EQ(error_of("rate", 1.5f), of + "rate" + unit + "1.5");
  EXPECT_EQ(error_of("ratio", 7.0), of + "ratio" + unit + "7");
  EXPECT_EQ(error_of("ratio", -1.0), of + "ratio" + unit + "-1");
  EXPECT_EQ(error_of("step", 1e300), "");
  EXPECT_EQ(error_of("step", -1.0),
            of + "step: expected a finite value >= 0, got -1");
}

}  // namespace
}  // namespace xla_ffi_kit
