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

// A handler that asks for what its signature does not name, or as another type.
template <int kMistake>
ffi::Error Mistaken(const Call& call, const Executor&) {
  if (kMistake == 0) call.Get<int64_t>("axsi");
  if (kMistake == 1) call.Get<double>("axis");
  if (kMistake == 2) call.WordOf("axis");
  if (kMistake == 3) call.Get<Dimensions>("mode");
  return {};
}
XLA_FFI_DEFINE_HANDLER(kMisspelled, (Checked<kSigned, Mistaken<0>>),
                       BindCall());
XLA_FFI_DEFINE_HANDLER(kMistyped, (Checked<kSigned, Mistaken<1>>), BindCall());
XLA_FFI_DEFINE_HANDLER(kNoWord, (Checked<kSigned, Mistaken<2>>), BindCall());
XLA_FFI_DEFINE_HANDLER(kNoArray, (Checked<kSigned, Mistaken<3>>), BindCall());

TEST(SignatureTest, AnAttributeThatTheSignatureLacksIsAnError) {
  const auto error_of = [](XLA_FFI_Handler* handler) {
    return Frame().Run(handler).message;
  };
  const std::string end =
      ": the handler asks for it, but the call has none of that name and "
      "type; its signature names {axis, count, mode, strides}: name one of "
      "these, as its type";
  EXPECT_EQ(error_of(kMisspelled), "test.signed: attribute axsi" + end);
  EXPECT_EQ(error_of(kMistyped), "test.signed: attribute axis" + end);
  EXPECT_EQ(error_of(kNoWord), "test.signed: attribute axis" + end);
  EXPECT_EQ(error_of(kNoArray), "test.signed: attribute mode" + end);
}

constexpr Argument kRanklessArguments[] = {
    Operand("operand x"), Result("result y").ShapeButLastOf(0, "of operand x")};
constexpr XlaFfiKit_Signature kRankless =
    MakeSignature("test.rankless", kRanklessArguments);
constexpr Argument kRowArguments[] = {
    Operand("operand x"),
    Result("result y").ShapeWithoutLastOf(0, "of operand x's rows")};
constexpr XlaFfiKit_Signature kRows = MakeSignature("test.rows", kRowArguments);

ffi::Error DoNothing(const Call&, const Executor&) { return {}; }
XLA_FFI_DEFINE_HANDLER(kOfRankless, (Checked<kRankless, DoNothing>),
                       BindCall());
XLA_FFI_DEFINE_HANDLER(kOfRows, (Checked<kRows, DoNothing>), BindCall());

TEST(SignatureTest, WhatHasNoLastAxisIsRefused) {
  std::vector<float> x = {1};
  const auto error_of = [&](XLA_FFI_Handler* handler,
                            const CallFrame::Dims& result) {
    return CallFrame().Arg(x, {}).Ret(x, result).Run(handler).message;
  };
  const std::string refused = "operand x: expected rank >= 1, got rank 0";
  EXPECT_EQ(error_of(kOfRankless, {}), "test.rankless: " + refused);
  EXPECT_EQ(error_of(kOfRankless, {1}), "test.rankless: " + refused);
  EXPECT_EQ(error_of(kOfRows, {}), "test.rows: " + refused);
}

constexpr Argument kBoundedArguments[] = {Operand("operand x"),
                                          Result("result y")};
constexpr Attribute kBoundedAttributes[] = {
    Scalar<uint8_t>("byte").Between(1, 3), Scalar<uint64_t>("huge").AtLeast(1),
    Scalar<int32_t>("int").Between(0, 3),  Scalar<float>("rate").Between(0, 1),
    Scalar<double>("ratio").Between(0, 1),
};
constexpr XlaFfiKit_Signature kBounded =
    MakeSignature("test.bounded", kBoundedArguments, kBoundedAttributes);
XLA_FFI_DEFINE_HANDLER(kOfBounded, (Checked<kBounded, DoNothing>), BindCall());

TEST(SignatureTest, BoundsHoldForEveryTypeOfNumbers) {
  std::vector<float> x = {1};
  const auto error_of = [&](const std::string& name, auto value) {
    return CallFrame()
        .Arg(x, {1})
        .Ret(x, {1})
        .Attr("byte", uint8_t{1})
        .Attr("huge", ~uint64_t{0})
        .Attr("int", 0)
        .Attr("rate", 1.0f)
        .Attr("ratio", 0.5)
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
}

constexpr Argument kManyArguments[] = {
    Operand("operand").ShapeOf(0).Repeated(),
    Result("result").Like(0).Repeated(),
};
constexpr XlaFfiKit_Signature kMany =
    MakeSignature("test.many", kManyArguments);
XLA_FFI_DEFINE_HANDLER(kOfMany, (Checked<kMany, DoNothing>), BindCall());

// UndefinedBehaviorSanitizer sees shifts by more than there are bits.
TEST(SignatureTest, RepeatedArgumentsMayBeMoreThanBits) {
  std::vector<float> x = {1};
  CallFrame frame;
  for (int i = 0; i < 40; ++i) frame.Arg(x, {1}).Ret(x, {1});
  EXPECT_EQ(frame.Run(kOfMany).message, "");
  frame.rets()[39].dims = {2};
  EXPECT_EQ(frame.Run(kOfMany).message,
            "test.many: result 39: expected shape (1) like operand 39, got "
            "shape (2)");
}

// As constants these do not compile.
TEST(SignatureDeathTest, WhatRefusesEveryCallIsNoSignature) {
  const Argument x = Operand("operand x");
  const Argument swapped[] = {Result("result y"), x};
  const Argument of_none_such[] = {x.Like(2), Result("result y")};
  const Argument of_none[] = {
      x, Result("result y").ShapeButLastOf(0, "of operand x", "cuont")};
  const Argument good[] = {x, Result("result y").Like(0)};
  const Attribute unsorted[] = {Integer("b"), Integer("a")};
  const Attribute twice[] = {Integer("a"), Integer("a")};
  const Attribute of_no_axis[] = {Integer("a").AxisOf(2)};
  const Attribute bounded[] = {Scalar<bool>("a").Between(0, 1)};
  EXPECT_DEATH(Result("output y"), "name of a result begins with");
  EXPECT_DEATH(Operand("input x"), "name of an operand begins with");
  EXPECT_DEATH(MakeSignature("o", swapped), "operands come before results");
  EXPECT_DEATH(MakeSignature("o", of_none_such), "one that there is");
  EXPECT_DEATH(MakeSignature("o", of_none), "names one of the attributes");
  EXPECT_DEATH(MakeSignature("o", good, unsorted), "sorted by name");
  EXPECT_DEATH(MakeSignature("o", good, twice), "sorted by name");
  EXPECT_DEATH(MakeSignature("o", good, of_no_axis), "by their numbers");
  EXPECT_DEATH(MakeSignature("o", good, bounded), "what has bounds");
}

}  // namespace
}  // namespace xla_ffi_kit
