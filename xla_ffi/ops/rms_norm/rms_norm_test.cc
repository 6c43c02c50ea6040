#include "xla_ffi/ops/rms_norm/rms_norm.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

#include "gtest/gtest.h"
#include "xla_ffi/core/accumulation_type.h"
#include "xla_ffi/core/components.h"
#include "xla_ffi/core/half.h"
#include "xla_ffi/testing/for_each_simd_target.h"
#include "xla_ffi/testing/wide_numbers.h"

namespace xla_ffi_kit {
namespace {

using testing::ForEachSimdTarget;
using testing::Magnitude;
using testing::Narrow;
using testing::RandomNormal;
using testing::UnitRoundoff;
using testing::Wide;
using testing::WideComplex;
using testing::Widen;

template <typename T>
class RmsNormTest : public ::testing::Test {};

using Types = ::testing::Types<Float16, BFloat16, float, double,
                               std::complex<float>, std::complex<double>>;
TYPED_TEST_SUITE(RmsNormTest, Types);

// Rows of a case, with `shift` elements before each array, so that vectors are
// misaligned, and one after it, which must stay as it is.
template <typename T>
struct Case {
  Case(int64_t rows, int64_t n, int64_t shift)
      : rows(rows),
        n(n),
        shift(shift),
        x(RandomNormal<T>(rows * n + shift, 17 + n)),
        residual(RandomNormal<T>(rows * n + shift, 18 + n)),
        weight(RandomNormal<T>(n + shift, 19 + n)),
        y(rows * n + shift + 1, Narrow<T>(99)),
        sum(y) {}

  RmsNormForwardArgs<T> Args(bool has_weight, bool has_residual) {
    RmsNormForwardArgs<T> args;
    args.x = x.data() + shift;
    if (has_weight) args.weight = weight.data() + shift;
    if (has_residual) {
      args.residual = residual.data() + shift;
      args.sum = sum.data() + shift;
    }
    args.y = y.data() + shift;
    args.n = n;
    args.rows_per_weight = rows;
    args.eps = 1e-6;
    return args;
  }

  int64_t rows, n, shift;
  std::vector<T> x, residual, weight, y, sum;
};

// Checks one row against the formula.
template <typename T>
void ExpectRow(const RmsNormForwardArgs<T>& args, int64_t row) {
  using A = AccumulationType<T>;
  const T* h = (args.residual == nullptr ? args.x : args.sum) + row * args.n;
  Wide power = 0;
  for (int64_t i = 0; i < args.n; ++i) power += std::norm(Widen(h[i]));
  const Wide scale = 1 / std::sqrt(power / args.n + args.eps);
  // Errors: a few roundings of the scale; one of each product; one of y.
  const Wide u = UnitRoundoff<T>(), a = UnitRoundoff<A>();
  if (args.scale != nullptr) {
    EXPECT_LE(std::abs(args.scale[row] - scale), 4 * a * scale);
  }
  Wide worst = 0;
  for (int64_t i = 0; i < args.n; ++i) {
    const int64_t at = row * args.n + i;
    if (args.residual != nullptr) {
      const WideComplex want = Widen(args.x[at]) + Widen(args.residual[at]);
      worst = std::max(worst, Magnitude(Widen(h[i]) - want) /
                                  (u * Magnitude(want) + 0x1p-25L));
    }
    WideComplex want = Widen(h[i]) * scale;
    if (args.weight != nullptr) want *= Widen(args.weight[i]);
    const Wide tolerance = (u + 8 * a) * Magnitude(want) + 0x1p-25L;
    worst = std::max(worst, Magnitude(Widen(args.y[at]) - want) / tolerance);
  }
  // Half again for complex products, whose parts round separately.
  EXPECT_LE(worst, 1.5L) << "n = " << args.n << ", row " << row;
}

TYPED_TEST(RmsNormTest, MatchesTheFormulaAtEveryLengthAndAlignment) {
  using T = TypeParam;
  ForEachSimdTarget([] {
    for (int64_t n = 1; n <= 300; ++n) {
      for (const int64_t shift : {0, 1, 6}) {
        Case<T> c(2, n, shift);
        for (const int variant : {0, 1, 2, 3}) {
          const auto args = c.Args((variant & 1) != 0, (variant & 2) != 0);
          RmsNorm(args, 0, c.rows);
          for (int64_t row = 0; row < c.rows; ++row) ExpectRow(args, row);
          ASSERT_EQ(Widen(c.y.back()), Widen(Narrow<T>(99)));
          ASSERT_EQ(Widen(c.sum.back()), Widen(Narrow<T>(99)));
        }
        if (::testing::Test::HasFailure()) return;
      }
    }
  });
}

TYPED_TEST(RmsNormTest, MatchesTheFormulaForLongRows) {
  using T = TypeParam;
  ForEachSimdTarget([] {
    for (const int64_t n : {1023, 2048, 4099, 100003}) {
      Case<T> c(2, n, 0);
      std::vector<AccumulationType<T>> scale(2);
      auto args = c.Args(true, true);
      args.scale = scale.data();
      RmsNorm(args, 0, 2);
      for (int64_t row = 0; row < 2; ++row) ExpectRow(args, row);
    }
  });
}

TYPED_TEST(RmsNormTest, PartsMakeTheWhole) {
  using T = TypeParam;
  Case<T> c(3, 1000, 1);
  auto args = c.Args(true, true);
  RmsNorm(args, 0, 3);
  const std::vector<T> whole = c.y;
  std::fill(c.y.begin(), c.y.end(), Narrow<T>(99));
  for (int64_t row = 0; row < 3; ++row) {
    const double power =
        RmsNormPower(args, row, 0, 301) + RmsNormPower(args, row, 301, 1000);
    const auto scale =
        RmsNormScale<AccumulationType<T>>(power, args.n, args.eps);
    RmsNormApply(args, row, 0, 77, scale);
    RmsNormApply(args, row, 77, 1000, scale);
    ExpectRow(args, row);
  }
  EXPECT_EQ(Widen(c.y.back()), Widen(whole.back()));
}

TYPED_TEST(RmsNormTest, EachGroupOfRowsHasItsWeight) {
  using T = TypeParam;
  const std::vector<T> x(4 * 3, Narrow<T>(1));
  std::vector<T> weight = {Narrow<T>(1), Narrow<T>(2), Narrow<T>(3),
                           Narrow<T>(4), Narrow<T>(5), Narrow<T>(6)};
  std::vector<T> y(12);
  RmsNormForwardArgs<T> args;
  args.x = x.data();
  args.weight = weight.data();
  args.y = y.data();
  args.n = 3;
  args.rows_per_weight = 2;
  RmsNorm(args, 0, 4);
  for (int64_t i = 0; i < 12; ++i) {
    EXPECT_EQ(Widen(y[i]), Widen(weight[i / 6 * 3 + i % 3])) << i;
  }
}

TYPED_TEST(RmsNormTest, WorksInPlace) {
  using T = TypeParam;
  ForEachSimdTarget([] {
    Case<T> c(2, 85, 0);
    RmsNorm(c.Args(true, true), 0, 2);
    const std::vector<T> y = c.y, sum = c.sum;
    auto args = c.Args(true, true);
    args.y = c.x.data();
    args.sum = c.residual.data();
    RmsNorm(args, 0, 2);
    for (size_t i = 0; i < c.x.size(); ++i) {
      ASSERT_EQ(Widen(c.x[i]), Widen(y[i])) << i;
      ASSERT_EQ(Widen(c.residual[i]), Widen(sum[i])) << i;
    }
  });
}

TYPED_TEST(RmsNormTest, NanStaysInItsRow) {
  using T = TypeParam;
  ForEachSimdTarget([] {
    Case<T> c(3, 40, 0);
    c.x[79] = Narrow<T>(std::numeric_limits<double>::quiet_NaN());
    RmsNorm(c.Args(false, false), 0, 3);
    for (int64_t i = 0; i < 120; ++i) {
      EXPECT_EQ(std::isnan(Widen(c.y[i]).real()), i / 40 == 1) << i;
    }
  });
}

TEST(RmsNormRangeTest, SquaresBeyondFloatDoNotOverflow) {
  ForEachSimdTarget([] {
    std::vector<float> x = {2e19f, -2e30f, 3e-30f, 0.0f}, y(4);
    RmsNormForwardArgs<float> args;
    args.x = x.data();
    args.y = y.data();
    RmsNorm(args, 0, 4);
    EXPECT_FLOAT_EQ(y[0], 1);
    EXPECT_FLOAT_EQ(y[1], -1);
    EXPECT_FLOAT_EQ(y[2], 1);
    EXPECT_TRUE(std::isnan(y[3]));  // 0 / 0

    std::vector<Float16> half(33, Float16(60000.0f));
    RmsNormForwardArgs<Float16> half_args;
    half_args.x = half.data();
    half_args.y = half.data();
    half_args.n = 33;
    RmsNorm(half_args, 0, 1);
    EXPECT_EQ(static_cast<float>(half[32]), 1);
  });
}

TEST(RmsNormRangeTest, InfinityGivesZerosAndNan) {
  ForEachSimdTarget([] {
    std::vector<float> x = {1, std::numeric_limits<float>::infinity()}, y(2);
    RmsNormForwardArgs<float> args;
    args.x = x.data();
    args.y = y.data();
    args.n = 2;
    RmsNorm(args, 0, 1);
    EXPECT_EQ(y[0], 0);
    EXPECT_TRUE(std::isnan(y[1]));
  });
}

}  // namespace
}  // namespace xla_ffi_kit
