#include "accelerate/kernels/dot_general/dot_general_handler.h"

#include <cstdint>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "xla_ffi/testing/bad_frames.h"
#include "xla_ffi/testing/call_frame.h"

namespace xla_ffi_accelerate::dot_general {
namespace {

namespace testing = ::xla_ffi_kit::testing;

using testing::CallFrame;
using Axes = std::vector<int64_t>;

CallFrame Numbers(CallFrame frame, Axes lhs_batch, Axes rhs_batch,
                  Axes lhs_contracting, Axes rhs_contracting,
                  const std::string& order = "fma") {
  return frame.Attr("lhs_batch", std::move(lhs_batch))
      .Attr("rhs_batch", std::move(rhs_batch))
      .Attr("lhs_contracting", std::move(lhs_contracting))
      .Attr("rhs_contracting", std::move(rhs_contracting))
      .Attr("order", order);
}

std::vector<double> Iota(int64_t n) {
  std::vector<double> values(n);
  for (int64_t i = 0; i < n; ++i) values[i] = static_cast<double>(i);
  return values;
}

// Small integers, whose sums are exact in any order.
TEST(DotGeneralHandlerTest, DimensionsInAnyPlace) {
  // lhs[k1, b1, m1, b0, k0, m0], rhs[b0, n0, k0, b1, k1]
  const int64_t b0 = 3, b1 = 2, m0 = 2, m1 = 4, k0 = 2, k1 = 3, n0 = 5;
  std::vector<double> lhs = Iota(k1 * b1 * m1 * b0 * k0 * m0);
  std::vector<double> rhs = Iota(b0 * n0 * k0 * b1 * k1);
  std::vector<double> out(b0 * b1 * m1 * m0 * n0), want(out.size());
  size_t at = 0;
  for (int64_t b = 0; b < b0 * b1; ++b) {
    for (int64_t m = 0; m < m1 * m0; ++m) {
      for (int64_t n = 0; n < n0; ++n, ++at) {
        for (int64_t k = 0; k < k0 * k1; ++k) {
          const int64_t ib0 = b / b1, ib1 = b % b1, im1 = m / m0, im0 = m % m0,
                        ik0 = k / k1, ik1 = k % k1;
          const int64_t l =
              ((((ik1 * b1 + ib1) * m1 + im1) * b0 + ib0) * k0 + ik0) * m0 +
              im0;
          const int64_t r = (((ib0 * n0 + n) * k0 + ik0) * b1 + ib1) * k1 + ik1;
          want[at] += lhs[l] * rhs[r];
        }
      }
    }
  }
  const auto status = Numbers(CallFrame()
                                  .Arg(lhs, {k1, b1, m1, b0, k0, m0})
                                  .Arg(rhs, {b0, n0, k0, b1, k1})
                                  .Ret(out, {b0, b1, m1, m0, n0}),
                              {3, 1}, {0, 3}, {4, 0}, {2, 4})
                          .Run(XlaFfiAccelerateDotGeneralCpu);
  ASSERT_EQ(status.message, "");
  EXPECT_EQ(out, want);
}

TEST(DotGeneralHandlerTest, NamesOfOrders) {
  // 1 + 2^-12 squared is 1 + 2^-11 + 2^-24: the last term is lost where
  // products are rounded, and what is left over after -(1 + 2^-11) tells.
  const float x = 1 + 1.0f / 4096, y = 1 + 1.0f / 2048;
  std::vector<float> lhs = {y, x}, rhs = {-1, x}, out(1);
  const auto run = [&](const std::string& order) {
    const auto status =
        Numbers(CallFrame().Arg(lhs, {1, 2}).Arg(rhs, {2, 1}).Ret(out, {1, 1}),
                {}, {}, {1}, {0}, order)
            .Run(XlaFfiAccelerateDotGeneralCpu);
    EXPECT_EQ(status.message, "");
    return out[0];
  };
  EXPECT_EQ(run("multiply_add"), 0);
  EXPECT_EQ(run("multiply_add_then_zero"), 0);
  EXPECT_EQ(run("even_odd_fma"), 0);
  // Or on a processor without FMA.
  EXPECT_TRUE(run("fma") == 1.0f / (1 << 24) || run("fma") == 0);
  EXPECT_EQ(run("fma_then_zero"), run("fma"));
}

TEST(DotGeneralHandlerTest, NothingToSumIsZero) {
  std::vector<float> none, out(8, 7), nothing;
  EXPECT_EQ(Numbers(CallFrame()
                        .Arg(none, {2, 2, 0})
                        .Arg(none, {2, 0, 2})
                        .Ret(out, {2, 2, 2}),
                    {0}, {0}, {2}, {1})
                .Run(XlaFfiAccelerateDotGeneralCpu)
                .message,
            "");
  EXPECT_EQ(out, std::vector<float>(8, 0));
  EXPECT_EQ(Numbers(CallFrame()
                        .Arg(none, {0, 2, 2})
                        .Arg(none, {0, 2, 2})
                        .Ret(nothing, {0, 2, 2}),
                    {0}, {0}, {2}, {1})
                .Run(XlaFfiAccelerateDotGeneralCpu)
                .message,
            "");
}

class DotGeneralErrorTest : public ::testing::Test {
 protected:
  std::vector<float> lhs_ = std::vector<float>(1000),
                     rhs_ = std::vector<float>(1000),
                     out_ = std::vector<float>(1000);

  CallFrame Operands(Axes lhs, Axes rhs, Axes out) {
    return CallFrame().Arg(lhs_, lhs).Arg(rhs_, rhs).Ret(out_, out);
  }

  CallFrame Good() {
    return Numbers(Operands({6, 2, 3}, {6, 3, 4}, {6, 2, 4}), {0}, {0}, {2},
                   {1});
  }

  static std::string Message(CallFrame frame) {
    return frame.Run(XlaFfiAccelerateDotGeneralCpu).message;
  }
};

TEST_F(DotGeneralErrorTest, RefusesBadFrames) {
  testing::ExpectRefusesBadFrames(XlaFfiAccelerateDotGeneralCpu, Good());
}

TEST_F(DotGeneralErrorTest, RefusesNullData) {
  testing::ExpectRefusesNullData(XlaFfiAccelerateDotGeneralCpu, Good(),
                                 "xla_ffi_accelerate.dot_general",
                                 {"operand lhs", "operand rhs", "result out"});
}

TEST_F(DotGeneralErrorTest, SaysWhatItExpects) {
  const std::string op = "xla_ffi_accelerate.dot_general: ";
  const auto operands = Operands({6, 2, 3}, {6, 3, 4}, {6, 2, 4});
  EXPECT_EQ(Message(Numbers(operands, {0}, {0}, {2}, {1}, "any")),
            op + "attribute order: expected fma, multiply_add, even_odd_fma, "
                 "fma_then_zero or multiply_add_then_zero, got any");
  EXPECT_EQ(Message(Numbers(operands, {0}, {0}, {3}, {1})),
            op + "attribute lhs_contracting: expected different dimensions of "
                 "an operand of rank 3, got 3");
  EXPECT_EQ(Message(Numbers(operands, {0}, {1}, {2}, {1})),
            op + "attribute rhs_contracting: expected different dimensions of "
                 "an operand of rank 3, got 1");
  EXPECT_EQ(Message(Numbers(operands, {-1}, {0}, {2}, {1})),
            op + "attribute lhs_batch: expected different dimensions of an "
                 "operand of rank 3, got -1");
  EXPECT_EQ(Message(Numbers(operands, {0}, {}, {2}, {1})),
            op + "operand rhs: batch dimensions: expected (6) like operand "
                 "lhs, got ()");
  EXPECT_EQ(Message(Numbers(operands, {0}, {0}, {1}, {1})),
            op + "operand rhs: contracting dimensions: expected (2) like "
                 "operand lhs, got (3)");
  EXPECT_EQ(Message(Numbers(Operands({6, 2, 3}, {6, 3, 4}, {6, 4, 2}), {0}, {0},
                            {2}, {1})),
            op + "result out: expected shape (6, 2, 4) from the operands, got "
                 "shape (6, 4, 2)");
}

TEST_F(DotGeneralErrorTest, RefusesWhatIsNotSmall) {
  const std::string op = "xla_ffi_accelerate.dot_general: ";
  EXPECT_EQ(Message(Numbers(Operands({2, 3, 9}, {2, 9, 3}, {2, 3, 3}), {0}, {0},
                            {2}, {1})),
            op + "operand lhs: contracting dimensions: expected at most 8 "
                 "elements together, got (9)");
  EXPECT_EQ(Message(Numbers(Operands({2, 3, 3, 2}, {2, 2, 3}, {2, 3, 3, 3}),
                            {0}, {0}, {3}, {1})),
            op + "operand lhs: other dimensions: expected at most 8 elements "
                 "together, got (3, 3)");
  EXPECT_EQ(Message(Numbers(Operands({2, 3, 2}, {2, 2, 9}, {2, 3, 9}), {0}, {0},
                            {2}, {1})),
            op + "operand rhs: other dimensions: expected at most 8 elements "
                 "together, got (9)");
}

}  // namespace
}  // namespace xla_ffi_accelerate::dot_general
