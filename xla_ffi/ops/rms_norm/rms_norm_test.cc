#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <vector>

#ifdef __SSE2__
#include <xmmintrin.h>
#endif

#include "gtest/gtest.h"
#include "xla_ffi/core/half.h"
#include "xla_ffi/ops/rms_norm/rms_norm_call.h"
#include "xla_ffi/ops/rms_norm/rms_norm_parallel.h"
#include "xla_ffi/ops/rms_norm/rms_norm_testing.h"
#include "xla_ffi/testing/for_each_simd_target.h"
#include "xla_ffi/testing/thread_sanitizer.h"
#include "xla_ffi/testing/threaded_pool.h"

namespace xla_ffi_kit {
namespace {

using rms_norm_testing::ExpectRight;
using rms_norm_testing::Narrow;
using rms_norm_testing::Platform;
using rms_norm_testing::Random;
using rms_norm_testing::Shape;
using rms_norm_testing::Value;
using rms_norm_testing::Wide;
using testing::CallFrame;
using testing::ForEachSimdTarget;

Platform Cpu(int64_t threads = 1) {
  return {{XlaFfiKitRmsNormCpu, XlaFfiKitRmsNormBwdCpu,
           XlaFfiKitRmsNormWeightBwdCpu},
          threads};
}

template <typename T>
class RmsNormTest : public ::testing::Test {};
using Types = ::testing::Types<Float16, BFloat16, float, double>;
TYPED_TEST_SUITE(RmsNormTest, Types);

TYPED_TEST(RmsNormTest, MatchesTheFormulaAtEveryLengthAndAlignment) {
  ForEachSimdTarget([] {
    for (int64_t n = 1; n <= 300 && !::testing::Test::HasFailure(); ++n) {
      for (const Shape& shape :
           {Shape{1, 2, n}, {2, 1, n, 1}, {1, 19, n, 6}, {2, 2, n, 6}}) {
        // Many rows are for the sums over them.
        if (shape.rows < 19 || n % 16 < 3) ExpectRight<TypeParam>(Cpu(), shape);
      }
    }
    for (const int64_t n : {1023, 2048, 4099, 100003}) {
      ExpectRight<TypeParam>(Cpu(), {1, 2, n});
    }
  });
}

// Rows divided among threads; a long row, shared; several; no row. Dweight by
// rows and by columns; a weight per row, two weights whose rows threads share,
// and weights of many columns.
TYPED_TEST(RmsNormTest, MatchesTheFormulaHoweverThreadsDivideIt) {
  for (const Shape& shape : {Shape{1, 1200, 257},
                             {1, 1, 300000, 1},
                             {1, 4, 200000},
                             {1, 0, 7},
                             {1, 9, 20000},
                             {100, 1, 2000},
                             {2, 500, 400},
                             {3, 5, 9000}}) {
    ExpectRight<TypeParam>(Cpu(/*threads=*/3), shape);
  }
}

// vmap over the weight gives a weight per row.
TEST(RmsNormTasksTest, AWeightPerRowHasAllThreads) {
  constexpr int64_t kRows = 500, kLength = 1000;
  std::vector<float> ones(kRows * kLength, 1), scale(kRows, 1), out = ones,
                                                                dweight = ones;
  RmsNormForwardArgs<float> forward;
  forward.x = forward.weight = ones.data();
  forward.y = out.data();
  forward.rows = kRows;
  forward.n = kLength;
  testing::ThreadedPool of_forward(4), of_backward(4);
  ParallelRmsNorm(of_forward, forward);
  EXPECT_EQ(of_forward.scheduled(), 3U);

  RmsNormBackwardArgs<float> backward;
  backward.x = backward.ct = backward.weight = ones.data();
  backward.scale = scale.data();
  backward.dx = out.data();
  backward.dweight = dweight.data();
  backward.rows = backward.weights = kRows;
  backward.n = kLength;
  ParallelRmsNormBackward(of_backward, backward);
  EXPECT_EQ(of_backward.scheduled(), 3U);
}

// --- Inputs that make sums go wrong ------------------------------------------

// y of one row; eps = 0.
template <typename T>
std::vector<T> Normalized(std::vector<T> x) {
  const auto n = static_cast<int64_t>(x.size());
  std::vector<T> y(x.size());
  CallFrame frame;
  frame.Arg(x, {n}).Ret(y, {n}).Attr("eps", 0.0);
  EXPECT_EQ(frame.Run(XlaFfiKitRmsNormCpu).message, "");
  return y;
}

// Rows whose sums are hard: the same rounding error in every addition; numbers
// that hardly differ; a huge one; squares that are denormal floats.
template <typename T>
std::vector<std::vector<T>> HardRows(int64_t n) {
  const auto random = Random<T>(n, 1);
  std::vector<std::vector<T>> rows(4, random);
  for (int64_t i = 0; i < n; ++i) {
    const auto value = static_cast<double>(Value(random[i]));
    rows[0][i] = Narrow<T>(1.1);
    rows[1][i] = Narrow<T>(1000 + value);
    if (i == n / 3) rows[2][i] = Narrow<T>(3e4);
    rows[3][i] = Narrow<T>(1e-21 * value);
  }
  return rows;
}

// Calls check(x, y, scale) with hard rows of such lengths, what is computed of
// them, and what scales them exactly.
template <typename T, typename Check>
void ForHardRows(std::initializer_list<int64_t> lengths, const Check& check) {
  for (const int64_t n : lengths) {
    SCOPED_TRACE(n);
    for (const std::vector<T>& x : HardRows<T>(n)) {
      const auto power = rms_norm_testing::Mean(
          n, [&](int64_t i) { return Value(x[i]) * Value(x[i]); });
      ForEachSimdTarget([&] { check(x, Normalized(x), 1 / std::sqrt(power)); });
    }
    if (testing::kIsThreadSanitizer) return;
  }
}

template <typename T>
void ExpectErrorsOfAtMost(double most) {
  ForHardRows<T>({7, 1000, 65536, 1 << 22},
                 [&](const auto& x, const auto& y, Wide scale) {
                   double worst = 0;
                   for (size_t i = 0; i < x.size(); ++i) {
                     const double want = Value(x[i]) * scale;
                     worst = std::max(worst, std::abs(y[i] / want - 1));
                   }
                   EXPECT_LE(worst, most);
                 });
}

TEST(RmsNormAccuracyTest, FloatIsRightTo2e7AtAnyLength) {
  ExpectErrorsOfAtMost<float>(2e-7);
}

TEST(RmsNormAccuracyTest, DoubleIsRightTo1e15AtAnyLength) {
  ExpectErrorsOfAtMost<double>(1e-15);
}

// At most one number in 10,000 may be rounded to its other neighbor, because
// the exact result is as near to that, or nearly so. Lengths are no squares, of
// which there would be many such results.
template <typename T>
void ExpectRoundedRight() {
  ForHardRows<T>({1009, 65521, 1000003},
                 [](const auto& x, const auto& y, Wide scale) {
                   size_t wrong = 0;
                   for (size_t i = 0; i < x.size(); ++i) {
                     const double want = Value(x[i]) * scale;
                     wrong += y[i].bits() != Narrow<T>(want).bits();
                   }
                   EXPECT_LE(wrong, x.size() / 10000);
                 });
}

TEST(RmsNormAccuracyTest, HalvesAreRoundedRight) {
  ExpectRoundedRight<BFloat16>();
  ExpectRoundedRight<Float16>();
}

#ifdef __SSE2__
// XLA's threads flush denormals to zero.
TEST(RmsNormAccuracyTest, HoldsWhereDenormalsAreFlushed) {
  const unsigned int control = _mm_getcsr();
  ForEachSimdTarget([&] {
    for (const std::vector<float>& row : HardRows<float>(5000)) {
      _mm_setcsr(control | 0x8040);  // FTZ and DAZ
      const std::vector<float> y = Normalized(row);
      _mm_setcsr(control);
      EXPECT_EQ(y, Normalized(row));
    }
  });
}
#endif

TEST(RmsNormRangeTest, SquaresBeyondFloatDoNotOverflow) {
  ForEachSimdTarget([] {
    EXPECT_FLOAT_EQ(Normalized<float>({2e19f})[0], 1);
    EXPECT_FLOAT_EQ(Normalized<float>({-2e30f})[0], -1);
    EXPECT_FLOAT_EQ(Normalized<float>({3e-30f})[0], 1);
    EXPECT_TRUE(std::isnan(Normalized<float>({0.0f})[0]));  // 0 / 0
    const std::vector<Float16> half(33, Float16(60000.0f));
    EXPECT_EQ(static_cast<float>(Normalized(half)[32]), 1);
  });
}

TEST(RmsNormRangeTest, InfinityGivesZerosAndNanAndStaysInItsRow) {
  ForEachSimdTarget([] {
    std::vector<float> x(3 * 40, 1), y = x;
    x[50] = std::numeric_limits<float>::infinity();
    CallFrame frame;
    frame.Arg(x, {3, 40}).Ret(y, {3, 40}).Attr("eps", 0.0);
    EXPECT_EQ(frame.Run(XlaFfiKitRmsNormCpu).message, "");
    for (int i = 0; i < 120; ++i) {
      EXPECT_EQ(std::isnan(y[i]), i == 50) << i;
      if (i == 50) continue;
      EXPECT_EQ(y[i], i / 40 == 1 ? 0 : 1) << i;
    }
  });
}

TEST(RmsNormRangeTest, ProductsBeyondFloatDoNotOverflow) {
  ForEachSimdTarget([] {
    // With eps = 0 the gradient of a scaled row is that of the row, divided.
    const auto run = [](float factor) {
      std::vector<float> x = {1 * factor, 2 * factor, 2 * factor};
      std::vector<float> ct = {1 * factor, 0, 3 * factor}, dx(3);
      CallFrame frame;
      frame.Arg(x, {3}).Arg(ct, {3}).Ret(dx, {3}).Attr("eps", 0.0);
      EXPECT_EQ(frame.Run(XlaFfiKitRmsNormBwdCpu).message, "");
      return dx;
    };
    const std::vector<float> want = run(1);
    for (const float factor : {0x1p100f, 0x1p-100f}) {
      const std::vector<float> dx = run(factor);
      for (int i = 0; i < 3; ++i) EXPECT_FLOAT_EQ(dx[i], want[i]);
    }
  });
}

}  // namespace
}  // namespace xla_ffi_kit
