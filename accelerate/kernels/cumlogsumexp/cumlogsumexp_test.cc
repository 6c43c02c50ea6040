#include "accelerate/kernels/cumlogsumexp/cumlogsumexp.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "xla_ffi/testing/call_frame.h"
#include "xla_ffi/testing/for_each_simd_target.h"

namespace xla_ffi_accelerate::cumlogsumexp {
namespace {

namespace testing = ::xla_ffi_kit::testing;

using testing::CallFrame;

constexpr double kInf = std::numeric_limits<double>::infinity();

// Element by element, in long double.
template <typename T>
void ExpectNear(const std::vector<T>& x, bool reverse) {
  const auto n = static_cast<int64_t>(x.size());
  std::vector<T> y(n, T{-7});
  CumlogsumexpProblem<T> problem;
  problem.length = n;
  problem.reverse = reverse;
  problem.in = x.data();
  problem.out = y.data();
  Cumlogsumexp(problem, {});
  long double want = -kInf, largest = 1;
  for (int64_t k = 0; k < n; ++k) {
    const int64_t i = reverse ? n - 1 - k : k;
    const long double v = x[i], high = std::max(want, v);
    const bool is_nan = v != v || want != want;
    if (is_nan) {
      want = std::numeric_limits<long double>::quiet_NaN();
    } else {
      want = std::isinf(high)
                 ? high
                 : high + std::log1p(std::exp(-std::abs(want - v)));
    }
    if (is_nan) {
      ASSERT_TRUE(y[i] != y[i]) << k << " of " << n;
    } else if (std::isinf(want)) {
      ASSERT_EQ(y[i], want) << k << " of " << n;
    } else {
      // The logarithm is rounded, and what it is added to.
      largest = std::max(largest, std::abs(v));
      const long double bound = 8 * std::numeric_limits<T>::epsilon() *
                                (largest + std::log(1.0L + n));
      ASSERT_NEAR(y[i], want, bound) << k << " of " << n;
    }
  }
}

template <typename T>
class CumlogsumexpTest : public ::testing::Test {};
using Types = ::testing::Types<float, double>;
TYPED_TEST_SUITE(CumlogsumexpTest, Types);

TYPED_TEST(CumlogsumexpTest, AnyLengthAndRange) {
  using T = TypeParam;
  testing::ForEachSimdTarget([] {
    std::mt19937_64 random(1);
    for (const int64_t n : {1, 2, 7, 17, 127, 128, 129, 400, 5000}) {
      for (const double scale : {0.0, 1.0, 30.0, 1000.0, 1e30}) {
        std::normal_distribution<double> normal(0, scale + 1e-9);
        std::vector<T> x(n);
        for (T& v : x) v = static_cast<T>(normal(random));
        for (const bool reverse : {false, true}) ExpectNear(x, reverse);
      }
    }
  });
}

TYPED_TEST(CumlogsumexpTest, SpecialValuesInAnyPlace) {
  using T = TypeParam;
  testing::ForEachSimdTarget([] {
    for (const double special : {kInf, -kInf, std::nan(""), 1e-310, -200.0}) {
      for (const int64_t n : {1, 3, 128, 300}) {
        for (const int64_t at : {int64_t{0}, n / 2, n - 1}) {
          std::vector<T> x(n, T{0.5});
          x[at] = static_cast<T>(special);
          ExpectNear(x, false);
          ExpectNear(x, true);
        }
        ExpectNear(std::vector<T>(n, static_cast<T>(special)), false);
      }
    }
    // What comes before a large one does not count as nothing.
    std::vector<T> x(200, T{-500});
    x[100] = 0;
    ExpectNear(x, false);
    ExpectNear(x, true);
  });
}

TEST(CumlogsumexpHandlerTest, RowsOnThreads) {
  const int64_t rows = 50, n = 1000;
  std::vector<double> x(rows * n, 0.0), y(rows * n);
  ASSERT_TRUE(CallFrame()
                  .Arg(x, {rows, n})
                  .Ret(y, {rows, n})
                  .Attr("reverse", true)
                  .Threads(3)
                  .Run(XlaFfiAccelerateCumlogsumexpCpu)
                  .ok());
  for (int64_t i = 0; i < rows * n; ++i) {
    ASSERT_NEAR(y[i], std::log(static_cast<double>(n - i % n)), 1e-14);
  }
}

}  // namespace
}  // namespace xla_ffi_accelerate::cumlogsumexp
