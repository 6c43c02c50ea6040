#include "accelerate/kernels/cumulative/cumulative.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "gtest/gtest.h"
#include "xla_ffi/core/dtypes.h"
#include "xla_ffi/core/half.h"
#include "xla_ffi/testing/call_frame.h"
#include "xla_ffi/testing/for_each_simd_target.h"
#include "xla_ffi/testing/threaded_pool.h"

namespace xla_ffi_accelerate::cumulative {
namespace {

namespace testing = ::xla_ffi_kit::testing;

using testing::CallFrame;

// A number of float's precision at least.
template <typename T>
AccumulationType<T> Wide(T x) {
  return static_cast<AccumulationType<T>>(x);
}

template <typename T>
T Sum(T a, T b) {
  if constexpr (!std::is_integral_v<T>) {
    return static_cast<T>(Wide(a) + Wide(b));
  } else {
    return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  }
}

// XLA's tree, level by level: blocks of 16, their totals scanned the same way,
// and what is before a block added to each of its elements.
template <typename T>
std::vector<T> Want(const std::vector<T>& x) {
  const auto zero = static_cast<T>(0.f);
  std::vector<T> y(x.size()), totals;
  for (size_t i = 0; i < x.size(); ++i) {
    const bool starts = i % 16 == 0;
    if (std::is_integral_v<T>) {
      y[i] = i == 0 ? x[0] : Sum(y[i - 1], x[i]);
      continue;
    }
    y[i] = Sum(starts ? zero : y[i - 1], x[i]);
    if (i % 16 == 15) totals.push_back(y[i]);
  }
  if (std::is_integral_v<T> || x.size() <= 16) return y;
  const std::vector<T> before = Want(totals);
  for (size_t i = 16; i < x.size(); ++i) y[i] = Sum(y[i], before[i / 16 - 1]);
  return y;
}

template <typename T>
std::vector<T> Values(int64_t n, bool with_specials, std::mt19937_64& random) {
  using Limits = std::numeric_limits<float>;
  std::vector<T> values(n);
  for (T& value : values) {
    if constexpr (std::is_integral_v<T>) {
      value = static_cast<T>(random());
    } else {
      const auto is_one_of = [&](int n) {
        return with_specials && random() % n == 0;
      };
      auto number = static_cast<decltype(Wide(T()))>(random() % 1999) / 1000;
      if (random() % 50 == 0) number = -number;
      if (is_one_of(97)) {
        number = random() % 2 ? Limits::quiet_NaN() : -Limits::infinity();
      }
      if (is_one_of(97)) number = -Limits::quiet_NaN();
      if (is_one_of(13)) number = -0.0f;
      value = static_cast<T>(number);
    }
  }
  return values;
}

// NaNs are all alike.
template <typename T>
bool IsSame(const std::vector<T>& got, const std::vector<T>& want) {
  for (size_t i = 0; i < want.size(); ++i) {
    if (Wide(want[i]) != Wide(want[i]) && Wide(got[i]) != Wide(got[i]))
      continue;
    if (std::memcmp(&got[i], &want[i], sizeof(T)) != 0) return false;
  }
  return true;
}

template <typename T>
CumulativeProblem ProblemOf(int64_t outer, int64_t length, int64_t inner,
                            const std::vector<T>& x, std::vector<T>* y) {
  CumulativeProblem problem;
  problem.outer = outer;
  problem.length = length;
  problem.inner = inner;
  problem.in = x.data();
  problem.out = y->data();
  return problem;
}

template <typename T>
class CumulativeTest : public ::testing::Test {};

using Types =
    ::testing::Types<int8_t, uint8_t, int16_t, uint16_t, int32_t, uint32_t,
                     int64_t, uint64_t, Float16, BFloat16, float, double>;
TYPED_TEST_SUITE(CumulativeTest, Types);

TYPED_TEST(CumulativeTest, LongLinesAreShared) {
  using T = TypeParam;
  std::mt19937_64 random(3);
  const int64_t size = (int64_t{4} << 20) / sizeof(T) + 11;
  const std::vector<T> x = Values<T>(size, false, random);
  // One line, and columns of one task and of two.
  for (const int64_t inner : {1, 2, 67}) {
    for (const bool reverse : {false, true}) {
      if (!std::is_integral_v<T> && reverse) continue;
      std::vector<T> alone = x, shared = x;
      CumulativeProblem problem = ProblemOf(1, size / inner, inner, x, &alone);
      problem.reverse = reverse;
      Cumulative<T>(problem, {});
      problem.in = problem.out = shared.data();
      testing::ThreadedPool pool(8);
      Cumulative<T>(problem, pool);
      ASSERT_GT(pool.scheduled(), 0u);
      ASSERT_TRUE(IsSame(shared, alone)) << inner;
    }
  }
}

TYPED_TEST(CumulativeTest, EveryLineInXlasOrder) {
  using T = TypeParam;
  constexpr bool kIsFloat = !std::is_integral_v<T>;
  testing::ForEachSimdTarget([] {
    std::mt19937_64 random(1);
    for (const int64_t n :
         {1, 2, 15, 16, 17, 127, 128, 129, 300, 5000, 70'000}) {
      for (const int64_t inner : {1, 2, 130}) {
        if (n * inner > 100'000) continue;
        const std::vector<T> x = Values<T>(2 * n * inner, n % 2 == 1, random);
        for (const bool reverse : {false, true}) {
          if (kIsFloat && reverse) continue;
          std::vector<T> y(x.size());
          CumulativeProblem problem = ProblemOf(2, n, inner, x, &y);
          problem.reverse = reverse;
          Cumulative<T>(problem, {});
          for (int64_t line = 0; line < 2 * inner; ++line) {
            const int64_t first = line / inner * n * inner + line % inner;
            std::vector<T> in(n), got(n);
            for (int64_t k = 0; k < n; ++k) {
              const int64_t at = first + (reverse ? n - 1 - k : k) * inner;
              in[k] = x[at];
              got[k] = y[at];
            }
            ASSERT_TRUE(IsSame(got, Want(in)))
                << n << " x " << inner << ", reverse " << reverse << ", line "
                << line;
          }
        }
      }
    }
  });
}

// As XLA leaves them: f16 all bits, bf16 the sign.
TEST(CumulativeNanTest, OneNanKeepsItsBits) {
  struct {
    void (*run)(const CumulativeProblem&, const Executor&);
    uint16_t nan, want;
  } const cases[] = {{Cumulative<Float16>, 0xfe12, 0xfe12},
                     {Cumulative<Float16>, 0x7e33, 0x7e33},
                     {Cumulative<BFloat16>, 0xffc5, 0xffc0},
                     {Cumulative<BFloat16>, 0x7fc3, 0x7fc0}};
  testing::ForEachSimdTarget([&] {
    for (const auto& c : cases) {
      for (const int64_t n : {9, 300}) {
        for (const int64_t inner : {1, 37}) {
          std::vector<uint16_t> x(n * inner), y(x.size());
          std::fill_n(x.begin() + 3 * inner, inner, c.nan);
          CumulativeProblem problem = ProblemOf(1, n, inner, x, &y);
          c.run(problem, {});
          for (int64_t i = 0; i < n * inner; ++i) {
            ASSERT_EQ(y[i], i < 3 * inner ? 0 : c.want) << n << ", " << i;
          }
        }
      }
    }
  });
}

// Lines beside each other and after each other, long ones and short ones.
TEST(CumulativeHandlerTest, InPlaceOnThreads) {
  const int64_t shapes[][3] = {
      {600, 1000, 1}, {3, 1000, 200}, {30'011, 7, 1}, {3, 7, 10'007}};
  for (const auto& [outer, n, inner] : shapes) {
    std::vector<int32_t> x(outer * n * inner, 1);
    const auto status = CallFrame()
                            .Arg(x, {outer, n, inner})
                            .Ret(x, {outer, n, inner})
                            .Attr("axis", int64_t{1})
                            .Attr("reverse", int64_t{0})
                            .Threads(3)
                            .Run(XlaFfiAccelerateCumulativeCpu);
    ASSERT_TRUE(status.ok()) << status.message;
    for (int64_t i = 0; i < outer * n * inner; ++i) {
      ASSERT_EQ(x[i], i / inner % n + 1) << outer << " x " << n << ", " << i;
    }
  }
}

TEST(CumulativeHandlerTest, RefusesWhatItDoesNotCover) {
  std::vector<float> x(6), y(6);
  CallFrame frame;
  frame.Arg(x, {2, 3}).Ret(y, {2, 3}).Attr("axis", int64_t{1});
  frame.Attr("reverse", int64_t{1});
  EXPECT_EQ(frame.Run(XlaFfiAccelerateCumulativeCpu).message,
            "xla_ffi_accelerate.cumulative: operand x: expected integers for "
            "a sum from the end, got dtype f32");
}

}  // namespace
}  // namespace xla_ffi_accelerate::cumulative
