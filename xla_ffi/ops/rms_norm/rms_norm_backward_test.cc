#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <vector>

#include "gtest/gtest.h"
#include "xla_ffi/core/accumulation_type.h"
#include "xla_ffi/core/components.h"
#include "xla_ffi/core/half.h"
#include "xla_ffi/ops/rms_norm/rms_norm.h"
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

constexpr double kEps = 1e-3;

template <typename T>
class RmsNormBackwardTest : public ::testing::Test {};

using Types = ::testing::Types<Float16, BFloat16, float, double,
                               std::complex<float>, std::complex<double>>;
TYPED_TEST_SUITE(RmsNormBackwardTest, Types);

// Arrays of a case; see the forward's test.
template <typename T>
struct Case {
  Case(int64_t rows, int64_t n, int64_t shift)
      : rows(rows),
        n(n),
        shift(shift),
        x(RandomNormal<T>(rows * n + shift, 17 + n)),
        ct(RandomNormal<T>(rows * n + shift, 18 + n)),
        ct_sum(RandomNormal<T>(rows * n + shift, 19 + n)),
        weight(RandomNormal<T>(n + shift, 20 + n)),
        dx(rows * n + shift + 1, Narrow<T>(99)),
        scale(rows) {
    RmsNormForwardArgs<T> forward;
    forward.x = x.data() + shift;
    forward.y = dx.data() + shift;
    forward.scale = scale.data();
    forward.n = n;
    forward.eps = kEps;
    RmsNorm(forward, 0, rows);
  }

  RmsNormBackwardArgs<T> Args(bool has_scale, bool has_weight,
                              bool has_ct_sum) {
    RmsNormBackwardArgs<T> args;
    if (has_scale) args.scale = scale.data();
    args.x = x.data() + shift;
    if (has_weight) args.weight = weight.data() + shift;
    args.ct = ct.data() + shift;
    if (has_ct_sum) args.ct_sum = ct_sum.data() + shift;
    args.dx = dx.data() + shift;
    args.n = n;
    args.rows_per_weight = rows;
    args.eps = kEps;
    return args;
  }

  int64_t rows, n, shift;
  std::vector<T> x, ct, ct_sum, weight, dx;
  std::vector<AccumulationType<T>> scale;
};

template <typename T>
void ExpectRow(const RmsNormBackwardArgs<T>& args, const Case<T>& c,
               int64_t row) {
  const Wide s = c.scale[row];
  const auto g = [&](int64_t i) {
    const WideComplex ct = Widen(args.ct[row * args.n + i]);
    return args.weight == nullptr ? ct : ct * Widen(args.weight[i]);
  };
  Wide mean = 0, magnitude = 0;
  for (int64_t i = 0; i < args.n; ++i) {
    const WideComplex term = Widen(args.x[row * args.n + i]) * g(i);
    mean += term.real() / args.n;
    magnitude += Magnitude(term) / args.n;
  }
  const Wide u = UnitRoundoff<T>(), a = UnitRoundoff<AccumulationType<T>>();
  Wide worst = 0;
  for (int64_t i = 0; i < args.n; ++i) {
    const int64_t at = row * args.n + i;
    const WideComplex x = std::conj(Widen(args.x[at])) * s * s * s;
    WideComplex want = s * g(i) - x * mean;
    // The terms, and those of the mean, may cancel: errors are relative to
    // their magnitudes.
    Wide terms = Magnitude(s * g(i)) + Magnitude(x) * magnitude;
    if (args.ct_sum != nullptr) {
      want += Widen(args.ct_sum[at]);
      terms += Magnitude(Widen(args.ct_sum[at]));
    }
    const Wide tolerance = u * Magnitude(want) + 8 * a * terms + 0x1p-25L;
    worst = std::max(worst, Magnitude(Widen(args.dx[at]) - want) / tolerance);
  }
  EXPECT_LE(worst, 1.5L) << "n = " << args.n << ", row " << row;
}

TYPED_TEST(RmsNormBackwardTest, MatchesTheFormulaAtEveryLengthAndAlignment) {
  using T = TypeParam;
  ForEachSimdTarget([] {
    for (int64_t n = 1; n <= 300; ++n) {
      for (const int64_t shift : {0, 1, 6}) {
        Case<T> c(2, n, shift);
        for (const int variant : {0, 1, 2, 7}) {
          const auto args = c.Args((variant & 1) != 0, (variant & 2) != 0,
                                   (variant & 4) != 0);
          RmsNormBackward(args, 0, c.rows);
          for (int64_t row = 0; row < c.rows; ++row) ExpectRow(args, c, row);
          ASSERT_EQ(Widen(c.dx.back()), Widen(Narrow<T>(99)));
        }
        if (::testing::Test::HasFailure()) return;
      }
    }
  });
}

TYPED_TEST(RmsNormBackwardTest, MatchesTheFormulaForLongRows) {
  using T = TypeParam;
  ForEachSimdTarget([] {
    for (const int64_t n : {1023, 2048, 4099, 100003}) {
      Case<T> c(1, n, 0);
      for (const bool has_scale : {false, true}) {
        const auto args = c.Args(has_scale, true, true);
        RmsNormBackward(args, 0, 1);
        ExpectRow(args, c, 0);
      }
    }
  });
}

TYPED_TEST(RmsNormBackwardTest, PartsMakeTheWhole) {
  using T = TypeParam;
  Case<T> c(3, 1000, 1);
  for (const bool has_scale : {false, true}) {
    const auto args = c.Args(has_scale, true, true);
    for (int64_t row = 0; row < 3; ++row) {
      RmsNormBackwardSums sums = RmsNormBackwardReduce(args, row, 0, 301);
      const RmsNormBackwardSums rest =
          RmsNormBackwardReduce(args, row, 301, 1000);
      sums.dot += rest.dot;
      sums.power += rest.power;
      RmsNormBackwardApply(args, row, 0, 77, sums);
      RmsNormBackwardApply(args, row, 77, 1000, sums);
      ExpectRow(args, c, row);
    }
  }
}

TYPED_TEST(RmsNormBackwardTest, WeightGradientMatchesTheFormula) {
  using T = TypeParam;
  ForEachSimdTarget([] {
    for (const int64_t n : {1, 2, 7, 16, 33, 150}) {
      const int64_t rows = 19;
      Case<T> c(rows, n, 1);
      const auto args = c.Args(true, true, false);
      std::vector<double> sums(kComponents<T> * n + 1);
      sums.back() = 5;
      const int64_t middle = n / 2;  // in two parts, of rows and of columns
      RmsNormWeightBackward(args, 0, 11, 0, middle, sums.data());
      RmsNormWeightBackward(args, 0, 11, middle, n,
                            sums.data() + kComponents<T> * middle);
      RmsNormWeightBackward(args, 11, rows, 0, n, sums.data());
      for (int64_t i = 0; i < n; ++i) {
        WideComplex want = 0;
        Wide terms = 0;
        for (int64_t r = 0; r < rows; ++r) {
          const WideComplex term = Widen(args.x[r * n + i]) * Wide{c.scale[r]} *
                                   Widen(args.ct[r * n + i]);
          want += term;
          terms += Magnitude(term);
        }
        const int64_t at = kComponents<T> * i;
        const WideComplex got(sums[at],
                              kComponents<T> == 2 ? sums[at + 1] : 0.0);
        EXPECT_LE(std::abs(got - want),
                  8 * UnitRoundoff<AccumulationType<T>>() * terms)
            << n << ", " << i;
      }
      EXPECT_EQ(sums.back(), 5);
    }
  });
}

TYPED_TEST(RmsNormBackwardTest, WorksInPlace) {
  using T = TypeParam;
  ForEachSimdTarget([] {
    for (const int which : {0, 1, 2}) {
      Case<T> c(2, 85, 0);
      auto args = c.Args(true, true, true);
      RmsNormBackward(args, 0, 2);
      std::vector<T>& target = which == 0 ? c.x : which == 1 ? c.ct : c.ct_sum;
      args.dx = target.data();
      RmsNormBackward(args, 0, 2);
      for (size_t i = 0; i < target.size(); ++i) {
        ASSERT_EQ(Widen(target[i]), Widen(c.dx[i])) << which << ", " << i;
      }
    }
  });
}

TEST(RmsNormBackwardRangeTest, ProductsBeyondFloatDoNotOverflow) {
  ForEachSimdTarget([] {
    // With eps = 0 the gradient of a scaled row is that of the row, divided.
    const std::vector<float> row = {1, 2, 2}, cts = {1, 0, 3};
    std::vector<float> reference(3), x(3), ct(3), dx(3);
    const auto run = [](const float* x, const float* ct, float* dx) {
      RmsNormBackwardArgs<float> args;
      args.x = x;
      args.ct = ct;
      args.dx = dx;
      args.n = 3;
      RmsNormBackward(args, 0, 1);
    };
    run(row.data(), cts.data(), reference.data());
    for (const float factor : {0x1p100f, 0x1p-100f}) {
      for (int i = 0; i < 3; ++i) {
        x[i] = row[i] * factor;
        ct[i] = cts[i] * factor;
      }
      run(x.data(), ct.data(), dx.data());
      for (int i = 0; i < 3; ++i) EXPECT_FLOAT_EQ(dx[i], reference[i]);
    }
  });
}

}  // namespace
}  // namespace xla_ffi_kit
