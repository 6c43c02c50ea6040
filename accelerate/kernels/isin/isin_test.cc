#include "accelerate/kernels/isin/isin.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <random>
#include <vector>

#include "accelerate/core/ordered_key.h"
#include "accelerate/kernels/isin/key_set.h"
#include "gtest/gtest.h"
#include "xla_ffi/testing/call_frame.h"

namespace xla_ffi_accelerate::isin {
namespace {

namespace testing = ::xla_ffi_kit::testing;

using testing::CallFrame;

template <typename T>
std::vector<T> Values(int64_t n, std::mt19937_64& random) {
  using Limits = std::numeric_limits<T>;
  const T special[] = {
      T(0),          T(-0.0),         Limits::quiet_NaN(), Limits::infinity(),
      Limits::max(), Limits::lowest()};
  std::vector<T> values(n);
  for (T& value : values) {
    value = random() % 9 == 0 ? special[random() % 6]
                              : static_cast<T>(random() % (2 * n + 3));
  }
  return values;
}

// Of `rows` rows of elements and tests.
template <typename T>
bool RunIsin(int64_t rows, const std::vector<T>& element,
             const std::vector<T>& test, bool subnormals_are_zero,
             bool* is_in) {
  IsinProblem problem;
  problem.rows = rows;
  problem.elements = static_cast<int64_t>(element.size()) / rows;
  problem.tests = static_cast<int64_t>(test.size()) / rows;
  problem.code = OrderedKey<T>(subnormals_are_zero);
  problem.element = element.data();
  problem.test = test.data();
  problem.is_in = is_in;
  return static_cast<bool>(Isin(problem, {}));
}

template <typename T>
class IsinTest : public ::testing::Test {};

using Types = ::testing::Types<int8_t, uint8_t, int16_t, uint16_t, int32_t,
                               uint32_t, int64_t, uint64_t, float, double>;
TYPED_TEST_SUITE(IsinTest, Types);

TYPED_TEST(IsinTest, AgreesWithEveryComparison) {
  using T = TypeParam;
  std::mt19937_64 random(1);
  for (const int64_t n : {0, 1, 2, 50, 1000}) {
    for (const int64_t m : {0, 1, 2, 30, 800}) {
      const std::vector<T> element = Values<T>(2 * n, random);
      const std::vector<T> test = Values<T>(2 * m, random);
      const auto out = std::make_unique<bool[]>(2 * n);
      ASSERT_TRUE(RunIsin(2, element, test, false, out.get()));
      for (int64_t i = 0; i < 2 * n; ++i) {
        const auto row = test.begin() + i / n * m;
        ASSERT_EQ(out[i], std::find(row, row + m, element[i]) != row + m)
            << n << " in " << m << ", " << i;
      }
    }
  }
}

TEST(KeySetTest, KeysThatWantOnePlaceAreFoundByBisection) {
  // The inverse of the hash's factor: products with it are 0, 1, 2...
  uint64_t inverse = 1;
  for (int i = 0; i < 6; ++i) inverse *= 2 - 0x9e3779b97f4a7c15 * inverse;
  std::vector<uint64_t> keys;
  for (uint64_t i = 1; i <= 1000; ++i) keys.push_back(i * inverse);
  std::vector<uint64_t> copy = keys;
  std::vector<uint64_t> table(KeySet<uint64_t>::Entries(1000));
  KeySet<uint64_t> set(1000, table.data());
  set.Assign(copy.data(), 1000);
  for (const uint64_t key : keys) ASSERT_TRUE(set.Contains(key));
  for (uint64_t i = 1001; i < 2000; ++i) {
    ASSERT_FALSE(set.Contains(i * inverse));
  }
  EXPECT_TRUE(std::is_sorted(copy.begin(), copy.end()));
}

TEST(IsinSubnormalTest, AreZeroWhereAskedTo) {
  const std::vector<float> element = {0, 1e-40f, -1e-40f}, test = {-0.0f};
  for (const bool are_zero : {false, true}) {
    bool out[3];
    ASSERT_TRUE(RunIsin(1, element, test, are_zero, out));
    EXPECT_TRUE(out[0]);
    EXPECT_EQ(out[1], are_zero);
    EXPECT_EQ(out[2], are_zero);
  }
}

TEST(IsinScratchTest, MissingMemoryIsReported) {
  IsinProblem problem;
  problem.rows = problem.elements = 1;
  problem.tests = int64_t{1} << 55;  // nothing is read before allocation
  problem.code = OrderedKey<float>(false);
  EXPECT_FALSE(Isin(problem, {}));
}

// A row that threads share, and rows that each of them has several of.
TEST(IsinHandlerTest, OnThreads) {
  std::vector<int32_t> element(200'000);
  for (int32_t i = 0; i < 200'000; ++i) element[i] = i;
  for (const int64_t rows : {1, 100}) {
    std::vector<int32_t> test;
    for (int32_t row = 0; row < rows; ++row) {
      test.insert(test.end(), {3, 5, 70'000 + row});
    }
    std::vector<uint8_t> out(200'000);
    const CallFrame::Dims dims = {rows, 200'000 / rows};
    const auto status = CallFrame()
                            .Arg(element, dims)
                            .Arg(test, {rows, 3})
                            .Ret(XLA_FFI_DataType_PRED, out.data(), dims)
                            .Threads(3)
                            .Run(XlaFfiAccelerateIsinCpu);
    ASSERT_TRUE(status.ok()) << status.message;
    for (int32_t i = 0; i < 200'000; ++i) {
      ASSERT_EQ(out[i], i == 3 || i == 5 || i == (rows == 1 ? 70'000 : 70'035));
    }
  }
}

}  // namespace
}  // namespace xla_ffi_accelerate::isin
