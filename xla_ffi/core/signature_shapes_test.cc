// Shapes, and arguments that may be missing or are repeated, by typed keys.

#include <cstddef>
#include <cstdint>
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

// --- Shapes ------------------------------------------------------------------

constexpr auto a =
    Operand{"a", TypeList<float>(), "(..., n, n)"}.Where("n", 1, 16);
constexpr auto row = Operand{"row", SameDtype(a), "(n)"}.Shared();
constexpr Operand one{"one", SameDtype(a), "()"};
constexpr Result trace{"trace", SameDtype(a), "(...)"};
constexpr char kSquare[] = "test.square";
using SquareCall = Call<kSquare, a, row, one, trace>;

template <typename ItsCall>
ffi::Error DoNothing(const ItsCall&, const Executor&) {
  return {};
}
XLA_FFI_DEFINE_HANDLER(kOfSquare, Checked<DoNothing<SquareCall>>,
                       BindCall<DoNothing<SquareCall>>());

TEST(SignatureShapesTest, SizesAreTheSameWhereverTheyStand) {
  std::vector<float> data(2 * 3 * 17 * 17);
  using Dims = CallFrame::Dims;
  const auto error_of = [&](const Dims& a, const Dims& row, const Dims& one,
                            const Dims& trace) {
    return CallFrame()
        .Arg(data, a)
        .Arg(data, row)
        .Arg(data, one)
        .Ret(data, trace)
        .Run(kOfSquare)
        .message;
  };
  const std::string of = "test.square: ";
  EXPECT_EQ(error_of({4, 4}, {4}, {}, {}), "");
  EXPECT_EQ(error_of({2, 3, 4, 4}, {4}, {}, {2, 3}), "");
  // What rows share has none of the batch axes, or the first ones.
  EXPECT_EQ(error_of({2, 3, 4, 4}, {2, 4}, {}, {2, 3}), "");
  EXPECT_EQ(error_of({2, 3, 4, 4}, {2, 3, 4}, {}, {2, 3}), "");
  const std::string shared =
      of +
      "operand row: expected shape (n), here (first axes of the batch or none, "
      "4), got shape ";
  EXPECT_EQ(error_of({2, 3, 4, 4}, {3, 4}, {}, {2, 3}), shared + "(3, 4)");
  EXPECT_EQ(error_of({2, 3, 4, 4}, {3}, {}, {2, 3}), shared + "(3)");
  EXPECT_EQ(error_of({4, 4}, {1, 4}, {}, {}), shared + "(1, 4)");
  // Bounds, and two axes of one size.
  const std::string square = of + "operand a: expected shape (..., n, n)";
  EXPECT_EQ(error_of({17, 17}, {17}, {}, {}),
            square + ", here (n, n), n of 1 to 16, got shape (17, 17)");
  EXPECT_EQ(error_of({0, 0}, {0}, {}, {}),
            square + ", here (n, n), n of 1 to 16, got shape (0, 0)");
  EXPECT_EQ(error_of({4}, {4}, {}, {}),
            square + ", n of 1 to 16, got shape (4)");
  EXPECT_NE(error_of({4, 3}, {4}, {}, {}), "");
  // Neither scalars nor the batch alone have other axes.
  EXPECT_EQ(error_of({4, 4}, {4}, {1}, {}),
            of + "operand one: expected shape (), got shape (1)");
  EXPECT_EQ(error_of({2, 4, 4}, {4}, {}, {3}),
            of + "result trace: expected shape (...), here (2), got shape "
                 "(3)");
  EXPECT_EQ(error_of({2, 4, 4}, {4}, {}, {}),
            of + "result trace: expected shape (...), here (2), got shape "
                 "()");
}

constexpr Operand whole{"whole", AnyType()};
constexpr Axis along{"along", whole};
constexpr Result rest{"rest", SameDtype(whole), whole.Without(along)};
constexpr char kWithout[] = "test.without";
using WithoutCall = Call<kWithout, whole, along, rest>;
XLA_FFI_DEFINE_HANDLER(kOfWithout, Checked<DoNothing<WithoutCall>>,
                       BindCall<DoNothing<WithoutCall>>());

TEST(SignatureShapesTest, AShapeMayLackAnAxis) {
  std::vector<float> data(24);
  const auto error_of = [&](const CallFrame::Dims& whole, int64_t along,
                            const CallFrame::Dims& rest) {
    return CallFrame()
        .Arg(data, whole)
        .Ret(data, rest)
        .Attr("along", along)
        .Run(kOfWithout)
        .message;
  };
  EXPECT_EQ(error_of({2, 3, 4}, 1, {2, 4}), "");
  EXPECT_EQ(error_of({2}, 0, {}), "");
  EXPECT_EQ(error_of({2, 3, 4}, 1, {2, 3}),
            "test.without: result rest: expected shape (2, 4) like operand "
            "whole without its along, got shape (2, 3)");
  EXPECT_EQ(error_of({2, 3}, 2, {2}),
            "test.without: attribute along: expected 0 to 1, got 2");
  EXPECT_EQ(error_of({}, 0, {}),
            "test.without: attribute along: expected an axis of operand "
            "whole, got rank 0");
}

// --- What may be missing -----------------------------------------------------

constexpr Operand x{"x", TypeList<float, double>(), "(..., n)"};
constexpr Result y{"y", x};
constexpr auto bias = Operand{"bias", x}.Optional();
constexpr auto more = Operand{"more", x}.Optional();
constexpr auto sum = Result{"sum", x}.GivenWith(bias);
constexpr auto scale =
    Result{"scale", AccumulationDtype(x), "(...)"}.Optional();
constexpr auto eps = Attribute<double>{"eps"}.UnlessGiven(more).OrF32();
constexpr char kOptional[] = "test.optional";
using OptionalCall = Call<kOptional, x, bias, more, y, sum, scale, eps>;

ffi::Error TellWhatThereIs(const OptionalCall& call, const Executor&) {
  float* const out = call.get<y>().as<float>();
  out[0] = (call.get<bias>() ? 1 : 0) + (call.get<more>() ? 10 : 0) +
           (call.get<sum>() ? 100 : 0) + (call.get<scale>() ? 1000 : 0);
  out[1] = call.get<more>() ? -1 : static_cast<float>(call.get<eps>());
  EXPECT_EQ(call.get<scale>().as<float>() == nullptr, !call.get<scale>());
  return {};
}
XLA_FFI_DEFINE_HANDLER(kOfOptional, Checked<TellWhatThereIs>,
                       BindCall<TellWhatThereIs>());

struct OptionalFrame : CallFrame {
  OptionalFrame(int operands, int results, bool has_scale = false) {
    for (int k = 0; k < operands; ++k) Arg(data, {1, 2});
    for (int k = 0; k < results; ++k) Ret(k == 0 ? out : data, {1, 2});
    if (has_scale) Ret(data, {1});
  }
  std::vector<float> data = {1, 2}, out = {0, 0};
};

TEST(SignatureShapesTest, WhatMayBeMissingIsNamedByTheNumberOfOperands) {
  OptionalFrame least(1, 1), most(3, 2, true), other(2, 2);
  EXPECT_EQ(least.Attr("eps", 0.5).Run(kOfOptional).message, "");
  EXPECT_EQ(least.out, (std::vector<float>{0, 0.5}));
  EXPECT_EQ(most.Run(kOfOptional).message, "");
  EXPECT_EQ(most.out, (std::vector<float>{1111, -1}));
  EXPECT_EQ(other.Attr("eps", 0.25f).Run(kOfOptional).message, "");
  EXPECT_EQ(other.out, (std::vector<float>{101, 0.25}));
  const std::string of = "test.optional: ";
  EXPECT_EQ(OptionalFrame(4, 2).Run(kOfOptional).message,
            of + "operands: expected x [, bias [, more]], got 4 of them");
  EXPECT_EQ(OptionalFrame(1, 3).Run(kOfOptional).message,
            of + "results: expected y [, scale] without an operand bias, got "
                 "3 of them");
  EXPECT_EQ(OptionalFrame(2, 1).Run(kOfOptional).message,
            of + "results: expected y, sum [, scale] with an operand bias, "
                 "got 1 of them");
  EXPECT_EQ(OptionalFrame(1, 1).Run(kOfOptional).message,
            of + "attributes: expected {eps} without an operand more, got {}");
  EXPECT_EQ(OptionalFrame(3, 2).Attr("eps", 0.5).Run(kOfOptional).message,
            of + "attributes: expected none with an operand more, got {eps}");
  EXPECT_EQ(OptionalFrame(1, 1).Attr("eps", 1).Run(kOfOptional).message,
            of + "attribute eps: expected a scalar f32 or f64 (in Python, "
                 "np.float64(value)), got another type");
  OptionalFrame wide(2, 2, true);
  wide.rets()[2].dtype = XLA_FFI_DataType_F64;
  EXPECT_EQ(wide.Attr("eps", 0.5).Run(kOfOptional).message,
            of + "result scale: expected dtype f32 to add up operand x, got "
                 "dtype f64");
}

// --- Repeated ones -----------------------------------------------------------

constexpr auto each = Operand{"each", AnyType(), "(...)"}.Repeated();
constexpr auto its = Result{"its", each}.Repeated();
constexpr char kMany[] = "test.many";
using ManyCall = Call<kMany, each, its>;

ffi::Error Copy(const ManyCall& call, const Executor&) {
  for (size_t k = 0; k < call.get<each>().size(); ++k) {
    const float value = call.get<each>()[k].as<float>()[0];
    if (value == 7) return call.Invalid<each>(k, "no 7", "7");
    if (value == 8) return call.Invalid<its>(k, "no 8", "8");
    call.get<its>()[k].as<float>()[0] = value;
  }
  return {};
}
XLA_FFI_DEFINE_HANDLER(kOfMany, Checked<Copy>, BindCall<Copy>());

// UndefinedBehaviorSanitizer sees shifts by more than there are bits.
TEST(SignatureShapesTest, RepeatedArgumentsMayBeMoreThanBits) {
  std::vector<std::vector<float>> xs(40, {1}), ys(40, {0});
  CallFrame frame;
  for (size_t k = 0; k < 40; ++k) frame.Arg(xs[k], {1}).Ret(ys[k], {1});
  xs[39] = {5};
  frame.args()[39].data = xs[39].data();
  EXPECT_EQ(frame.Run(kOfMany).message, "");
  EXPECT_EQ(ys[0][0], 1);
  EXPECT_EQ(ys[39][0], 5);
  CallFrame wrong = frame;
  wrong.rets()[39].dims = {2};
  EXPECT_EQ(wrong.Run(kOfMany).message,
            "test.many: result its 39: expected shape (1) like operand each "
            "39, got shape (2)");
  wrong = frame;
  wrong.rets().pop_back();
  EXPECT_EQ(wrong.Run(kOfMany).message,
            "test.many: results: expected 40, one per operand, got 39");
  EXPECT_EQ(CallFrame().Run(kOfMany).message,
            "test.many: operands: expected 1 or more, got 0");
  xs[38][0] = 7;
  EXPECT_EQ(frame.Run(kOfMany).message,
            "test.many: operand each 38: expected no 7, got 7");
  xs[38][0] = 8;
  EXPECT_EQ(frame.Run(kOfMany).message,
            "test.many: result its 38: expected no 8, got 8");
}

}  // namespace
}  // namespace xla_ffi_kit
