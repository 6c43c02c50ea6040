#include "accelerate/kernels/argmax/argmax.h"

#include <cstdint>
#include <limits>
#include <random>
#include <type_traits>
#include <vector>

#include "gtest/gtest.h"
#include "xla_ffi/core/dtypes.h"
#include "xla_ffi/core/half.h"
#include "xla_ffi/testing/call_frame.h"
#include "xla_ffi/testing/for_each_simd_target.h"
#include "xla_ffi/testing/threaded_pool.h"

namespace xla_ffi_accelerate::argmax {
namespace {

namespace testing = ::xla_ffi_kit::testing;

using testing::CallFrame;

template <typename T>
AccumulationType<T> Wide(T x) {
  return static_cast<AccumulationType<T>>(x);
}

// XLA's reducer, element by element.
template <typename T>
int64_t Want(const T* x, int64_t n, int64_t stride, bool is_min) {
  int64_t arg = 0;
  for (int64_t i = 1; i < n; ++i) {
    const auto best = Wide(x[arg * stride]), v = Wide(x[i * stride]);
    if (best != best) return arg;
    if (v != v || (is_min ? v < best : v > best)) arg = i;
  }
  return arg;
}

template <typename T>
std::vector<T> Values(int64_t n, int pattern, std::mt19937_64& random) {
  using Limits = std::numeric_limits<float>;
  const float special[] = {0.0f,
                           -0.0f,
                           1.0f,
                           -1.0f,
                           Limits::infinity(),
                           -Limits::infinity(),
                           Limits::quiet_NaN()};
  std::vector<T> values(n);
  for (int64_t i = 0; i < n; ++i) {
    if constexpr (std::is_integral_v<T>) {
      values[i] = static_cast<T>(pattern == 0   ? random() % 3
                                 : pattern == 1 ? random()
                                                : i / 64);
    } else {
      const auto number = static_cast<float>(random() % 1000) - 500;
      values[i] = static_cast<T>(pattern == 0   ? special[random() % 7]
                                 : pattern == 1 ? number
                                 : pattern == 2 ? special[random() % 2]
                                                : -Limits::infinity());
      // One NaN, somewhere.
      if (pattern == 1 && random() % (4 * n) == 0) values[i] = T(special[6]);
    }
  }
  return values;
}

template <typename T>
class ArgmaxTest : public ::testing::Test {};

using Types =
    ::testing::Types<int8_t, uint8_t, int16_t, uint16_t, int32_t, uint32_t,
                     int64_t, uint64_t, float, double, Float16, BFloat16>;
TYPED_TEST_SUITE(ArgmaxTest, Types);

TYPED_TEST(ArgmaxTest, FindsTheFirstOfTheBest) {
  using T = TypeParam;
  std::vector<int64_t> lengths = {129, 600, 4200, 9001};
  for (int64_t n = 1; n <= 66; ++n) lengths.push_back(n);
  testing::ForEachSimdTarget([&] {
    std::mt19937_64 random(1);
    for (const int64_t n : lengths) {
      for (const int64_t inner : {1, 3, 300}) {
        if (inner * n > 100'000) continue;
        for (int pattern = 0; pattern < 4; ++pattern) {
          const std::vector<T> x = Values<T>(2 * n * inner, pattern, random);
          for (const bool is_min : {false, true}) {
            std::vector<int32_t> narrow(2 * inner, -1);
            std::vector<int64_t> wide(2 * inner, -1);
            ArgmaxProblem problem;
            problem.outer = 2;
            problem.length = n;
            problem.inner = inner;
            problem.is_min = is_min;
            problem.in = x.data();
            problem.out = narrow.data();
            Argmax<T>(problem, {});
            problem.index_width = 8;
            problem.out = wide.data();
            Argmax<T>(problem, {});
            for (int64_t i = 0; i < 2 * inner; ++i) {
              const T* line = &x[i / inner * n * inner + i % inner];
              const int64_t want = Want(line, n, inner, is_min);
              ASSERT_EQ(narrow[i], want)
                  << n << " x " << inner << ", " << pattern << ", line " << i;
              ASSERT_EQ(wide[i], want);
            }
          }
        }
      }
    }
  });
}

TEST(ArgmaxSubnormalTest, BF16SubnormalsAreZeroWhereAskedTo) {
  const std::vector<uint16_t> x = {0x0000, 0x0001, 0x8001, 0x007f};
  for (const bool are_zero : {false, true}) {
    int32_t arg = -1;
    ArgmaxProblem problem;
    problem.length = 4;
    problem.subnormals_are_zero = are_zero;
    problem.in = x.data();
    problem.out = &arg;
    Argmax<BFloat16>(problem, {});
    EXPECT_EQ(arg, are_zero ? 0 : 3);
  }
}

// Fewer lines than threads, one after the other and beside each other; columns
// of one task, and of two.
TYPED_TEST(ArgmaxTest, LinesAreShared) {
  using T = TypeParam;
  std::mt19937_64 random(2);
  const std::vector<T> x = Values<T>(2'000'000, 1, random);
  for (const int64_t inner : {1, 3, 257}) {
    std::vector<int64_t> alone(2 * inner), shared(2 * inner);
    ArgmaxProblem problem;
    problem.outer = 2;
    problem.length = 1'000'000 / inner;
    problem.inner = inner;
    problem.in = x.data();
    problem.out = alone.data();
    problem.index_width = 8;
    Argmax<T>(problem, {});
    problem.out = shared.data();
    testing::ThreadedPool pool(8);
    Argmax<T>(problem, pool);
    // One-byte lines as long as these are worth one thread each at most.
    if (inner > 1 || sizeof(T) > 2) {
      EXPECT_GT(pool.scheduled(), 0u) << inner;
    }
    ASSERT_EQ(shared, alone) << inner;
  }
}

TEST(ArgmaxHandlerTest, OneLongLineOnThreads) {
  const int64_t n = 3'000'003;
  std::vector<float> x(n, 1.0f);
  std::vector<int32_t> index(1);
  const auto run = [&] {
    return CallFrame()
        .Arg(x, {n})
        .Ret(index, CallFrame::Dims{})
        .Attr("axis", int64_t{0})
        .Attr("of", "max")
        .Threads(3)
        .Run(XlaFfiAccelerateArgmaxCpu);
  };
  ASSERT_TRUE(run().ok());
  EXPECT_EQ(index[0], 0);
  x[777'777] = x[999'999] = 2;
  ASSERT_TRUE(run().ok());
  EXPECT_EQ(index[0], 777'777);
  x[888'888] = x[1'000'000] = std::numeric_limits<float>::quiet_NaN();
  ASSERT_TRUE(run().ok());
  EXPECT_EQ(index[0], 888'888);
}

TEST(ArgmaxHandlerTest, OtherAxesMayBeEmpty) {
  std::vector<float> x;
  std::vector<int32_t> indices;
  const auto run = [&](const CallFrame::Dims& dims, int64_t axis) {
    return CallFrame()
        .Arg(x, dims)
        .Ret(indices, {0})
        .Attr("axis", axis)
        .Attr("of", "max")
        .Run(XlaFfiAccelerateArgmaxCpu)
        .message;
  };
  EXPECT_EQ(run({2, 0}, 0), "");
  EXPECT_EQ(run({0, 2}, 1), "");
}

}  // namespace
}  // namespace xla_ffi_accelerate::argmax
