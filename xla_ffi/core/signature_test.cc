#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "xla_ffi/core/call.h"
#include "xla_ffi/core/handler.h"
#include "xla_ffi/testing/call_frame.h"

namespace xla_ffi_kit {
namespace {

using testing::CallFrame;
namespace ffi = ::xla::ffi;

constexpr Argument kArguments[] = {
    Operand("operand x").Of(TypeList<float, double>()).RankAtLeast(1),
    Operand("operand w").DtypeOf(0, "of operand x").Rank(2),
    Result("result y").Like(0),
    Result("result i")
        .Of<int32_t>("for indices")
        .ShapeButLastOf(0, "of operand x", "count"),
};
constexpr const char* kModes[] = {"fast", "exact", "any"};
constexpr Attribute kAttributes[] = {
    Integer("axis").AxisOf(0),
    Integer("count").Between(0, 9),
    Word("mode", kModes),
    Integers("strides", 2).Between(1, 1 << 30, "2^30"),
};
constexpr XlaFfiKit_Signature kSigned =
    MakeSignature("test.signed", kArguments, kAttributes);

// Writes what it was called with.
ffi::Error Run(const Call& call, const Executor&) {
  call.Out<float>(0)[0] = call.In<float>(0)[0];
  call.Out<int32_t>(1)[0] = static_cast<int32_t>(
      1000 * call.Get<int64_t>("axis") + 100 * call.WordOf("mode") +
      10 * call.Get<Dimensions>("strides")[1] + call.Get<int64_t>("count"));
  return {};
}
XLA_FFI_DEFINE_HANDLER(kHandler, (Checked<kSigned, Run>), BindCall());

struct Frame : CallFrame {
  Frame() {
    Arg(x, {1, 2}).Arg(w, {1, 1}).Ret(y, {1, 2}).Ret(i, {1, 3});
    Attr("axis", int64_t{1}).Attr("count", int64_t{3}).Attr("mode", "exact");
    Attr("strides", std::vector<int64_t>{1, 2});
  }
  std::vector<float> x = {5, 6}, w = {1}, y = {0, 0};
  std::vector<int32_t> i = {0, 0, 0};
};

TEST(SignatureTest, ACallThatFitsIsDecoded) {
  Frame frame;
  ASSERT_EQ(frame.Run(kHandler).message, "");
  EXPECT_EQ(frame.y[0], 5);
  EXPECT_EQ(frame.i[0], 1123);
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
      {[](Frame& f) { f.Attr("axis", int64_t{2}); },
       "attribute axis: expected 0 to 1, got 2"},
      {[](Frame& f) { f.Attr("count", int64_t{10}); },
       "result i: expected shape (1, 10) of operand x, got shape (1, 3)"},
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
       "operand x: expected rank >= 1, got rank 0"},
      {[](Frame& f) { f.args()[0].dtype = XLA_FFI_DataType_S32; },
       "operand x: expected one of the dtypes f32, f64, got s32"},
      {[](Frame& f) { f.args()[0].data = nullptr; },
       "operand x: expected data of shape (1, 2), got null"},
      {[](Frame& f) { f.args()[1].dims = {1}; },
       "operand w: expected rank 2, got rank 1"},
      {[](Frame& f) { f.args()[1].dtype = XLA_FFI_DataType_F64; },
       "operand w: expected dtype f32 of operand x, got dtype f64"},
      {[](Frame& f) { f.rets()[0].dims = {2, 1}; },
       "result y: expected shape (1, 2) like operand x, got shape (2, 1)"},
      {[](Frame& f) { f.rets()[1].dtype = XLA_FFI_DataType_S64; },
       "result i: expected dtype s32 for indices, got dtype s64"},
  };
  for (const auto& c : cases) {
    Frame frame;
    c.change(frame);
    const testing::Status status = frame.Run(kHandler);
    EXPECT_EQ(status.code, XLA_FFI_Error_Code_INVALID_ARGUMENT);
    EXPECT_EQ(status.message, "test.signed: " + c.error);
  }
}

}  // namespace
}  // namespace xla_ffi_kit
