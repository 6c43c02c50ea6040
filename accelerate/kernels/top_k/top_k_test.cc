#include "accelerate/kernels/top_k/top_k.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <type_traits>
#include <vector>

#include "accelerate/core/ordered_key.h"
#include "gtest/gtest.h"
#include "xla_ffi/testing/call_frame.h"

namespace xla_ffi_accelerate::top_k {
namespace {

namespace testing = ::xla_ffi_kit::testing;

using testing::CallFrame;
using testing::Status;

// Negative floats descend in their bits; the sign comes first.
template <typename T>
bool Greater(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    std::conditional_t<sizeof(T) == 4, int32_t, int64_t> x, y;
    std::memcpy(&x, &a, sizeof(T));
    std::memcpy(&y, &b, sizeof(T));
    if (x < 0 && y < 0) return x < y;
    return x > y;
  } else {
    return a > b;
  }
}

template <typename T>
std::vector<T> Values(int64_t n, int pattern, std::mt19937_64& random) {
  using Limits = std::numeric_limits<T>;
  const T special[] = {T(0),
                       T(1),
                       T(-1),
                       Limits::max(),
                       Limits::lowest(),
                       Limits::infinity(),
                       Limits::quiet_NaN(),
                       T(-Limits::quiet_NaN()),
                       T(-0.0)};
  std::vector<T> values(n);
  for (int64_t i = 0; i < n; ++i) {
    switch (pattern) {
      case 0:
        values[i] = special[random() % 9];
        break;
      case 1:
        values[i] = static_cast<T>(static_cast<int64_t>(random()) >> 40);
        break;
      case 2:
        values[i] = static_cast<T>(i);  // every element a new best
        break;
      case 3:
        values[i] = static_cast<T>(n - i);
        break;
      default:
        values[i] = T(5);
        break;
    }
  }
  return values;
}

template <typename T>
class TopKTest : public ::testing::Test {};

using Types = ::testing::Types<int8_t, uint8_t, int16_t, uint16_t, int32_t,
                               uint32_t, int64_t, uint64_t, float, double>;
TYPED_TEST_SUITE(TopKTest, Types);

TYPED_TEST(TopKTest, IsThePrefixOfTheStableDescendingSort) {
  using T = TypeParam;
  std::mt19937_64 random(1);
  for (const int64_t n : {1, 2, 8, 16, 17, 63, 64, 65, 300, 1000, 20'000}) {
    for (const int64_t k :
         {int64_t{1}, int64_t{16}, n / 300, n / 20, n / 2, n}) {
      if (k == 0 || k > n) continue;
      for (int pattern = 0; pattern < 5; ++pattern) {
        const int64_t rows = n < 2000 ? 3 : 1;
        const std::vector<T> x = Values<T>(rows * n, pattern, random);
        std::vector<T> values(rows * k);
        std::vector<int32_t> indices(rows * k);
        TopKProblem problem;
        problem.rows = rows;
        problem.length = n;
        problem.k = k;
        problem.code = OrderedKey<T>(false);
        problem.in = x.data();
        problem.values = values.data();
        problem.indices = indices.data();
        ASSERT_TRUE(TopK(problem, {}));
        for (int64_t row = 0; row < rows; ++row) {
          const T* in = x.data() + row * n;
          std::vector<int32_t> want(n);
          std::iota(want.begin(), want.end(), 0);
          std::stable_sort(want.begin(), want.end(), [&](int32_t a, int32_t b) {
            return Greater(in[a], in[b]);
          });
          for (int64_t i = 0; i < k; ++i) {
            ASSERT_EQ(indices[row * k + i], want[i])
                << n << ", " << k << ", " << pattern << ", " << i;
            ASSERT_EQ(
                std::memcmp(&values[row * k + i], &in[want[i]], sizeof(T)), 0);
          }
        }
      }
    }
  }
}

TEST(TopKScratchTest, MissingMemoryIsReported) {
  TopKProblem problem;
  problem.rows = 1;
  // Nothing is read before allocation.
  problem.length = problem.k = int64_t{1} << 60;
  problem.code = OrderedKey<float>(false);
  EXPECT_FALSE(TopK(problem, {}));
}

TEST(TopKHandlerTest, SelectsFromEachRowOnThreads) {
  const int64_t rows = 300, n = 1000;
  std::vector<float> x(rows * n), values(rows * 2);
  std::vector<int32_t> indices(rows * 2);
  for (int64_t i = 0; i < rows * n; ++i) x[i] = static_cast<float>(i % 997);
  const Status status = CallFrame()
                            .Arg(x, {rows, n})
                            .Ret(values, {rows, 2})
                            .Ret(indices, {rows, 2})
                            .Threads(3)
                            .Run(XlaFfiAccelerateTopKCpu);
  ASSERT_TRUE(status.ok()) << status.message;
  for (int64_t row = 0; row < rows; ++row) {
    ASSERT_EQ(values[2 * row], 996);
    ASSERT_EQ(x[row * n + indices[2 * row]], 996);
  }
}

Status Select(const CallFrame::Dims& from, const CallFrame::Dims& to) {
  std::vector<float> x(6), values(6);
  std::vector<int32_t> indices(6);
  return CallFrame()
      .Arg(x, from)
      .Ret(values, to)
      .Ret(indices, to)
      .Run(XlaFfiAccelerateTopKCpu);
}

TEST(TopKHandlerTest, NothingToSelectIsNoWork) {
  EXPECT_TRUE(Select({0, 3}, {0, 2}).ok());
  EXPECT_TRUE(Select({2, 3}, {2, 0}).ok());
}

TEST(TopKHandlerTest, RefusesToSelectMoreThanThereAre) {
  EXPECT_EQ(Select({2}, {3}).message,
            "xla_ffi_accelerate.top_k: operand x: expected a last axis of k = "
            "3 or more elements, got shape (2)");
}

}  // namespace
}  // namespace xla_ffi_accelerate::top_k
