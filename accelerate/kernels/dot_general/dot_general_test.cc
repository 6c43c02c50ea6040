#include "accelerate/kernels/dot_general/dot_general.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#ifdef __SSE2__
#include <xmmintrin.h>
#endif

#include "gtest/gtest.h"
#include "xla_ffi/testing/call_frame.h"
#include "xla_ffi/testing/for_each_simd_target.h"
// After for_each_simd_target.h.
#include "hwy/targets.h"

namespace xla_ffi_accelerate::dot_general {
namespace {

namespace testing = ::xla_ffi_kit::testing;

using testing::CallFrame;
using Axes = std::vector<int64_t>;

constexpr DotOrder kOrders[] = {DotOrder::kFma, DotOrder::kMultiplyAdd,
                                DotOrder::kEvenOddFma, DotOrder::kFmaThenZero,
                                DotOrder::kMultiplyAddThenZero};

// volatile: the compiler may otherwise make an FMA of a product and a sum.
template <typename T>
T Product(T x, T y) {
  const volatile T product = x * y;
  return product;
}

// With a product rounded first, unless `is_fused`.
template <typename T>
T AddProduct(T sum, T x, T y, bool is_fused) {
  return is_fused ? std::fma(x, y, sum) : sum + Product(x, y);
}

template <typename T>
T Want(DotOrder order, const std::vector<T>& x, const std::vector<T>& y,
       bool has_fma) {
  const bool is_fused = has_fma && order != DotOrder::kMultiplyAdd &&
                        order != DotOrder::kMultiplyAddThenZero;
  T sum = 0;
  size_t l = 0;
  if (order == DotOrder::kEvenOddFma) {
    T odd = 0;
    for (; l + 2 <= x.size(); l += 2) {
      sum = AddProduct(sum, x[l], y[l], is_fused);
      odd = AddProduct(odd, x[l + 1], y[l + 1], is_fused);
    }
    sum = sum + odd;
  }
  for (; l < x.size(); ++l) sum = AddProduct(sum, x[l], y[l], is_fused);
  return order >= DotOrder::kFmaThenZero ? sum + T(0) : sum;
}

CallFrame Numbers(CallFrame frame, Axes left_batch, Axes right_batch,
                  Axes left_contracting, Axes right_contracting,
                  DotOrder how = DotOrder::kFma) {
  return frame.Attr("lhs_batch", std::move(left_batch))
      .Attr("rhs_batch", std::move(right_batch))
      .Attr("lhs_contracting", std::move(left_contracting))
      .Attr("rhs_contracting", std::move(right_contracting))
      .Attr("order", std::string(order.list[static_cast<int>(how)]));
}

// An operand's batch, rows and columns, which lie in memory in the order that
// `order` gives, outermost first: 0 batch, 1 rows, 2 columns.
struct Layout {
  Layout(const std::vector<int>& places, const Axes& sizes)
      : dims(3), axis(3), stride(3) {
    int64_t step = 1;
    for (int i = 2; i >= 0; --i) {
      dims[i] = sizes[places[i]];
      axis[places[i]] = i;
      stride[places[i]] = step;
      step *= dims[i];
    }
  }
  int64_t At(int64_t b, int64_t i, int64_t j) const {
    return b * stride[0] + i * stride[1] + j * stride[2];
  }

  Axes dims;          // as they lie in memory
  Axes axis, stride;  // of the batch, the rows and the columns
};

template <typename T>
struct Case {
  Case(int64_t batch, int64_t m, int64_t k, int64_t n,
       const std::vector<int>& left_places,
       const std::vector<int>& right_places, std::mt19937_64& random)
      : dims{batch, m, n},
        k(k),
        left(left_places, {batch, m, k}),
        right(right_places, {batch, k, n}),
        lhs(batch * m * k),
        rhs(batch * k * n),
        out(batch * m * n) {
    const auto fill = [&](std::vector<T>& values) {
      for (T& value : values) {
        value = static_cast<T>(std::normal_distribution<double>()(random));
      }
    };
    fill(lhs);
    fill(rhs);
  }

  void Run(DotOrder how = DotOrder::kFma, int64_t threads = 1) {
    order = how;
    std::fill(out.begin(), out.end(), T(7));
    const auto status =
        Numbers(
            CallFrame().Arg(lhs, left.dims).Arg(rhs, right.dims).Ret(out, dims),
            {left.axis[0]}, {right.axis[0]}, {left.axis[2]}, {right.axis[1]},
            how)
            .Threads(threads)
            .Run(XlaFfiAccelerateDotGeneralCpu);
    ASSERT_EQ(status.message, "");
  }

  T WantAt(int64_t b, int64_t i, int64_t j, bool has_fma) const {
    std::vector<T> x, y;
    for (int64_t l = 0; l < k; ++l) {
      x.push_back(lhs[left.At(b, i, l)]);
      y.push_back(rhs[right.At(b, l, j)]);
    }
    return Want(order, x, y, has_fma);
  }

  void ExpectWanted(bool has_fma) const {
    const int64_t m = dims[1], n = dims[2];
    for (int64_t b = 0; b < dims[0]; ++b) {
      for (int64_t i = 0; i < m; ++i) {
        for (int64_t j = 0; j < n; ++j) {
          const T want = WantAt(b, i, j, has_fma);
          const T got = out[(b * m + i) * n + j];
          if (std::isnan(want) && std::isnan(got)) continue;
          ASSERT_EQ(std::memcmp(&got, &want, sizeof(T)), 0)
              << m << " x " << k << " x " << n << ", order "
              << static_cast<int>(order) << ", [" << b << ", " << i << ", " << j
              << "]: " << got << ", not " << want;
        }
      }
    }
  }

  Axes dims;
  int64_t k;
  Layout left, right;
  DotOrder order = DotOrder::kFma;
  // Exactly as long as they are: a sanitizer sees what is read beyond.
  std::vector<T> lhs, rhs, out;
};

bool HasFma() {
  constexpr int64_t kWithout =
      HWY_SSE2 | HWY_SSSE3 | HWY_SSE4 | HWY_EMU128 | HWY_SCALAR;
  return (hwy::SupportedTargets() & ~kWithout) != 0;
}

template <typename T>
class DotGeneralTest : public ::testing::Test {};

using Types = ::testing::Types<float, double>;
TYPED_TEST_SUITE(DotGeneralTest, Types);

TYPED_TEST(DotGeneralTest, EverySizeOrderAndLayout) {
  testing::ForEachSimdTarget([] {
    std::mt19937_64 random(1);
    const std::vector<int> layouts[] = {
        {0, 1, 2}, {0, 2, 1}, {1, 2, 0}, {2, 0, 1}};
    int which = 0;
    for (int64_t m = 1; m <= kMaxDotSize; ++m) {
      for (int64_t k = 0; k <= kMaxDotSize; ++k) {
        for (int64_t n = 1; n <= kMaxDotSize; ++n) {
          ++which;
          Case<TypeParam> c(5, m, k, n, layouts[which % 4],
                            layouts[which / 4 % 4], random);
          for (const DotOrder how : kOrders) {
            ASSERT_NO_FATAL_FAILURE(c.Run(how));
            ASSERT_NO_FATAL_FAILURE(c.ExpectWanted(HasFma()));
          }
        }
      }
    }
  });
}

TYPED_TEST(DotGeneralTest, EverySpecialInEveryPlace) {
  using Limits = std::numeric_limits<TypeParam>;
  testing::ForEachSimdTarget([] {
    std::mt19937_64 random(2);
    for (const TypeParam special :
         {Limits::quiet_NaN(), Limits::infinity(), Limits::max(),
          Limits::denorm_min(), -TypeParam(0)}) {
      for (size_t i = 0; i < 16; ++i) {
        Case<TypeParam> c(2, 4, 4, 4, {0, 1, 2}, {0, 1, 2}, random);
        c.lhs[i] = c.rhs[31 - i] = special;
        ASSERT_NO_FATAL_FAILURE(c.Run());
        ASSERT_NO_FATAL_FAILURE(c.ExpectWanted(HasFma()));
      }
    }
  });
}

#ifdef __SSE2__
// XLA's threads flush: a sum that is too small has its sign left.
TEST(DotGeneralBatchTest, SignsOfFlushedSums) {
  const unsigned before = _mm_getcsr();
  _mm_setcsr(before | 0x8040);  // flush to zero, subnormals are zero
  const double tiny = std::numeric_limits<double>::min();
  std::mt19937_64 random(4);
  for (const DotOrder how : kOrders) {
    Case<double> c(1, 4, 4, 3, {0, 1, 2}, {0, 1, 2}, random);
    std::fill(c.lhs.begin(), c.lhs.end(), -tiny);
    std::fill(c.rhs.begin(), c.rhs.end(), 0.01);
    ASSERT_NO_FATAL_FAILURE(c.Run(how));
    for (const double sum : c.out) {
      EXPECT_EQ(sum, 0);
      EXPECT_EQ(std::signbit(sum), how < DotOrder::kFmaThenZero &&
                                       how != DotOrder::kMultiplyAdd &&
                                       HasFma())
          << static_cast<int>(how);
    }
  }
  _mm_setcsr(before);
}
#endif

TEST(DotGeneralBatchTest, ThreadsShareIt) {
  std::mt19937_64 random(3);
  for (const int64_t n : {3, 4, 7}) {
    Case<float> c(20'011, 4, 4, n, {0, 1, 2}, {1, 2, 0}, random);
    ASSERT_NO_FATAL_FAILURE(c.Run(DotOrder::kFma, /*threads=*/3));
    ASSERT_NO_FATAL_FAILURE(c.ExpectWanted(HasFma()));
  }
}

TEST(DotGeneralHandlerTest, NamesOfOrders) {
  // 1 + 2^-12 squared is 1 + 2^-11 + 2^-24: the last term is lost where
  // products are rounded, and what is left over after -(1 + 2^-11) tells.
  const float x = 1 + 1.0f / 4096, y = 1 + 1.0f / 2048;
  std::vector<float> lhs = {y, x}, rhs = {-1, x}, out(1);
  const auto run = [&](const std::string& name) {
    const auto status =
        Numbers(CallFrame().Arg(lhs, {1, 2}).Arg(rhs, {2, 1}).Ret(out, {1, 1}),
                {}, {}, {1}, {0})
            .Attr("order", name)
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

  static std::string Message(CallFrame frame) {
    return frame.Run(XlaFfiAccelerateDotGeneralCpu).message;
  }
};

TEST_F(DotGeneralErrorTest, SaysWhatItExpects) {
  const std::string op = "xla_ffi_accelerate.dot_general: ";
  const auto operands = Operands({6, 2, 3}, {6, 3, 4}, {6, 2, 4});
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
