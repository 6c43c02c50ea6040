#include "accelerate/kernels/sort/sort.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <type_traits>
#include <utility>
#include <vector>

#include "accelerate/core/ordered_key.h"
#include "gtest/gtest.h"
#include "xla_ffi/core/half.h"
#include "xla_ffi/testing/call_frame.h"
#include "xla_ffi/testing/thread_sanitizer.h"
#include "xla_ffi/testing/threaded_pool.h"

namespace xla_ffi_accelerate::sort {
namespace {

namespace testing = ::xla_ffi_kit::testing;

using testing::CallFrame;

constexpr int kPatterns = testing::kIsThreadSanitizer ? 1 : 5;

template <typename T, typename Out>
SortOperand OperandOf(const std::vector<T>& in, std::vector<Out>* out,
                      bool subnormals_are_zero = false) {
  SortOperand operand;
  operand.in = in.data();
  operand.out = out->data();
  operand.width = sizeof(T);
  operand.code = OrderedKey<T>(subnormals_are_zero);
  return operand;
}

SortProblem ProblemOf(int64_t rows, int64_t length,
                      std::vector<SortOperand> operands) {
  SortProblem problem;
  problem.rows = rows;
  problem.length = length;
  problem.operands = std::move(operands);
  return problem;
}

template <typename T>
bool Less(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    return std::isnan(b) ? !std::isnan(a) : a < b;
  } else {
    return a < b;
  }
}

// Few values, extreme ones and, for floats, every kind of tie among them.
template <typename T>
std::vector<T> Values(int64_t n, int pattern, std::mt19937_64& random) {
  using Limits = std::numeric_limits<T>;
  std::vector<T> special = {T(0), T(1), Limits::max(), Limits::lowest()};
  if constexpr (std::is_floating_point_v<T>) {
    special.insert(
        special.end(),
        {T(-0.0), Limits::infinity(), -Limits::infinity(), Limits::quiet_NaN(),
         -Limits::quiet_NaN(), Limits::denorm_min(), -Limits::denorm_min(),
         static_cast<T>(std::nan("7"))});
  }
  std::vector<T> values(n);
  for (int64_t i = 0; i < n; ++i) {
    switch (pattern) {
      case 0:
        values[i] = special[random() % special.size()];
        break;
      case 1:
        values[i] = static_cast<T>(static_cast<int64_t>(random()) >> 16);
        break;
      case 2:
        values[i] = static_cast<T>(i * 100 / n);  // ascending
        break;
      case 3:
        values[i] = static_cast<T>((n - i) * 100 / n);
        break;
      default:
        values[i] = static_cast<T>(std::min(i, n - i) * 100 / n);
        break;
    }
  }
  return values;
}

template <typename T>
bool SameBits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() &&
         (a.empty() ||
          std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

template <typename T>
class SortTest : public ::testing::Test {};

using Types = ::testing::Types<int8_t, uint8_t, int16_t, uint16_t, int32_t,
                               uint32_t, int64_t, uint64_t, float, double>;
TYPED_TEST_SUITE(SortTest, Types);

// Rows of one to three keys and a payload, and of the first key alone, against
// the standard library's stable sort.
template <typename T>
void CheckAgainstStableSort(int64_t rows, int64_t n, int64_t threads,
                            int pattern, std::mt19937_64& random) {
  const std::vector<T> key = Values<T>(rows * n, pattern, random);
  std::vector<int16_t> second(rows * n);
  std::vector<uint32_t> payload(rows * n);
  for (int64_t i = 0; i < rows * n; ++i) {
    second[i] = static_cast<int16_t>(random() % 5);
    payload[i] = static_cast<uint32_t>(random());
  }
  for (const int64_t num_keys : {1, 2, 3}) {
    std::vector<T> want_key;
    std::vector<int16_t> want_second;
    std::vector<uint32_t> want_payload;
    for (int64_t row = 0; row < rows; ++row) {
      std::vector<int64_t> order(n);
      std::iota(order.begin(), order.end(), row * n);
      std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
        if (Less(key[a], key[b])) return true;
        if (Less(key[b], key[a]) || num_keys == 1) return false;
        if (second[a] != second[b] || num_keys == 2) {
          return second[a] < second[b];
        }
        return payload[a] < payload[b];
      });
      for (const int64_t i : order) {
        want_key.push_back(key[i]);
        want_second.push_back(second[i]);
        want_payload.push_back(payload[i]);
      }
    }
    std::vector<T> got_key(rows * n);
    std::vector<int16_t> got_second(rows * n);
    std::vector<uint32_t> got_payload(rows * n);
    SortProblem problem =
        ProblemOf(rows, n,
                  {OperandOf(key, &got_key), OperandOf(second, &got_second),
                   OperandOf(payload, &got_payload)});
    problem.num_keys = num_keys;
    testing::ThreadedPool pool(threads);
    ASSERT_TRUE(Sort(problem, pool));
    ASSERT_TRUE(SameBits(got_key, want_key)) << n << ", " << pattern;
    ASSERT_TRUE(SameBits(got_second, want_second)) << n << ", " << pattern;
    ASSERT_TRUE(SameBits(got_payload, want_payload)) << n << ", " << pattern;
    if (num_keys > 1) continue;
    problem.operands.resize(1);
    std::fill(got_key.begin(), got_key.end(), T(1));
    ASSERT_TRUE(Sort(problem, pool));
    ASSERT_TRUE(SameBits(got_key, want_key)) << n << ", " << pattern;
  }
}

TYPED_TEST(SortTest, IsTheStableSortOfEveryLength) {
  std::mt19937_64 random(1);
  for (int pattern = 0; pattern < kPatterns; ++pattern) {
    for (const int64_t n :
         {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 33, 100, 257, 1000}) {
      CheckAgainstStableSort<TypeParam>(3, n, 1, pattern, random);
    }
    CheckAgainstStableSort<TypeParam>(100, 400, 3, pattern, random);
    // Several groups of short rows, the last one not full.
    CheckAgainstStableSort<TypeParam>(3'000, 7, 2, pattern, random);
  }
}

TYPED_TEST(SortTest, IsTheStableSortOfLongRows) {
  std::mt19937_64 random(2);
  for (int pattern = 0; pattern < kPatterns; ++pattern) {
    for (const int64_t threads : {1, 2, 8}) {
      if (testing::kIsThreadSanitizer && threads != 2) continue;
      CheckAgainstStableSort<TypeParam>(1, 140'001, threads, pattern, random);
    }
  }
}

// The one is read off the packed keys, the others must not be.
TEST(SortIotaTest, IndicesAndWhatIsNearlyTheIndicesAreSorted) {
  std::mt19937_64 random(3);
  for (const auto& [rows, n] :
       {std::pair<int64_t, int64_t>{3, 5}, {3, 2'000}, {1, 140'001}}) {
    const int64_t size = rows * n;
    const std::vector<float> key = Values<float>(size, 0, random);
    std::vector<uint32_t> iota(size);
    for (int64_t i = 0; i < size; ++i) iota[i] = static_cast<uint32_t>(i % n);
    std::vector<uint32_t> last = iota, first = iota;
    last.back() = 0;
    first[0] = 7;
    std::vector<float> got_key(size);
    std::vector<uint32_t> got_iota(size), got_last(size), got_first(size);
    testing::ThreadedPool pool(2);
    ASSERT_TRUE(Sort(
        ProblemOf(rows, n,
                  {OperandOf(key, &got_key), OperandOf(iota, &got_iota),
                   OperandOf(last, &got_last), OperandOf(first, &got_first)}),
        pool));
    for (int64_t row = 0; row < rows; ++row) {
      std::vector<uint32_t> want(n);
      std::iota(want.begin(), want.end(), 0);
      const float* keys = key.data() + row * n;
      std::stable_sort(want.begin(), want.end(), [&](uint32_t a, uint32_t b) {
        return Less(keys[a], keys[b]);
      });
      for (int64_t i = 0; i < n; ++i) {
        const int64_t from = row * n + want[i], to = row * n + i;
        ASSERT_EQ(got_iota[to], want[i]);
        ASSERT_EQ(got_last[to], last[from]);
        ASSERT_EQ(got_first[to], first[from]);
      }
    }
  }
}

TEST(SortSubnormalTest, AreZeroWhereAskedTo) {
  const float tiny = std::numeric_limits<float>::denorm_min();
  const std::vector<float> key = {1, tiny, 0, -tiny, -0.0f, -1};
  const std::vector<float> ties = {-1, tiny, 0, -tiny, -0.0f, 1};
  const std::vector<float> ordered = {-1, -tiny, 0, -0.0f, tiny, 1};
  for (const bool are_zero : {false, true}) {
    std::vector<float> alone(6), with_payload(6), payload(6);
    SortProblem problem = ProblemOf(1, 6, {OperandOf(key, &alone, are_zero)});
    ASSERT_TRUE(Sort(problem, {}));
    problem.operands[0].out = with_payload.data();
    problem.operands.push_back(OperandOf(key, &payload));
    ASSERT_TRUE(Sort(problem, {}));
    const std::vector<float>& want = are_zero ? ties : ordered;
    EXPECT_TRUE(SameBits(alone, want));
    EXPECT_TRUE(SameBits(with_payload, want));
    EXPECT_TRUE(SameBits(payload, want));
  }
}

TEST(SortBF16Test, NansKeepOnlyTheirSign) {
  const std::vector<uint16_t> key = {0x7fc5, 0xff81, 0x0000, 0x7f80};
  const std::vector<uint16_t> want = {0x0000, 0x7f80, 0x7fc0, 0xffc0};
  std::vector<uint16_t> alone(4), with_payload(4), payload(4);
  SortOperand operand = OperandOf(key, &alone);
  operand.code = OrderedKey<BFloat16>(false);
  operand.is_bf16 = true;
  SortProblem problem = ProblemOf(1, 4, {operand});
  ASSERT_TRUE(Sort(problem, {}));
  problem.operands[0].out = with_payload.data();
  operand.out = payload.data();
  problem.operands.push_back(operand);
  ASSERT_TRUE(Sort(problem, {}));
  EXPECT_EQ(alone, want);
  EXPECT_EQ(with_payload, want);
  EXPECT_EQ(payload, want);
}

TEST(SortBF16Test, NansOfLongRowsKeepOnlyTheirSign) {
  const int64_t n = 1 << 20;
  std::vector<uint16_t> key(2 * n, 0x3f80), out(2 * n);
  key[1] = key[n + 1] = 0x7f81;
  SortOperand operand = OperandOf(key, &out);
  operand.code = OrderedKey<BFloat16>(false);
  operand.is_bf16 = true;
  testing::ThreadedPool pool(8);
  ASSERT_TRUE(Sort(ProblemOf(2, n, {operand}), pool));
  EXPECT_EQ(out[n - 1], 0x7fc0);
  EXPECT_EQ(out[2 * n - 1], 0x7fc0);
}

TEST(SortShapeTest, NoRowsAndEmptyRowsAreNoWork) {
  std::vector<float> none;
  EXPECT_TRUE(Sort(ProblemOf(0, 5, {OperandOf(none, &none)}), {}));
  EXPECT_TRUE(Sort(ProblemOf(5, 0, {OperandOf(none, &none)}), {}));
}

TEST(SortScratchTest, MissingMemoryIsReported) {
  const int64_t n = int64_t{1} << 55;  // nothing is read before allocation
  std::vector<float> none;
  const SortOperand operand = OperandOf(none, &none);
  EXPECT_FALSE(Sort(ProblemOf(1, n, {operand, operand}), {}));
  // More than 64 bits of bytes.
  EXPECT_FALSE(Sort(ProblemOf(1, n << 7, {operand, operand}), {}));
}

TEST(SortHandlerTest, SortsEachRowWithItsPayload) {
  std::vector<float> key = {2, 1, 2, 0, -1, 0}, key_out(6);
  std::vector<int32_t> index = {0, 1, 2, 0, 1, 2}, index_out(6);
  CallFrame frame;
  frame.Arg(key, {2, 1, 3}).Arg(index, {2, 1, 3});
  frame.Ret(key_out, {2, 1, 3}).Ret(index_out, {2, 1, 3});
  frame.Attr("num_keys", int64_t{1});
  EXPECT_EQ(frame.Run(XlaFfiAccelerateSortCpu).message, "");
  EXPECT_EQ(key_out, (std::vector<float>{1, 2, 2, -1, 0, 0}));
  EXPECT_EQ(index_out, (std::vector<int32_t>{1, 0, 2, 1, 0, 2}));
  frame.Attr("num_keys", int64_t{3});
  EXPECT_EQ(
      frame.Run(XlaFfiAccelerateSortCpu).message,
      "xla_ffi_accelerate.sort: attribute num_keys: expected 1 to 2, got 3");
}

TEST(SortHandlerTest, ThreadsShareOneLongRow) {
  const int64_t n = 200'000;
  std::vector<int32_t> key(n), out(n);
  for (int64_t i = 0; i < n; ++i) key[i] = i * 7919 % n;
  CallFrame frame;
  frame.Arg(key, {n}).Ret(out, {n}).Attr("num_keys", int64_t{1}).Threads(3);
  ASSERT_EQ(frame.Run(XlaFfiAccelerateSortCpu).message, "");
  for (int64_t i = 0; i < n; ++i) ASSERT_EQ(out[i], i);
}

TEST(SortHandlerTest, EmptyArraysAreNoWork) {
  std::vector<int32_t> none;
  for (const CallFrame::Dims& dims : {CallFrame::Dims{0, 3}, {3, 0}}) {
    CallFrame frame;
    frame.Arg(none, dims).Ret(none, dims).Attr("num_keys", int64_t{1});
    EXPECT_EQ(frame.Run(XlaFfiAccelerateSortCpu).message, "");
  }
}

TEST(SortHandlerTest, ComplexIsPayloadButNoKey) {
  double x[4] = {2, 0, 1, 0}, y[4];
  std::vector<int64_t> key = {2, 1}, sorted(2);
  CallFrame frame;
  frame.Arg(key, {2}).Arg(XLA_FFI_DataType_C128, x, {2});
  frame.Ret(sorted, {2}).Ret(XLA_FFI_DataType_C128, y, {2});
  frame.Attr("num_keys", int64_t{1});
  ASSERT_EQ(frame.Run(XlaFfiAccelerateSortCpu).message, "");
  EXPECT_EQ(y[0], 1);
  EXPECT_EQ(y[2], 2);
  frame.Attr("num_keys", int64_t{2});
  EXPECT_EQ(frame.Run(XlaFfiAccelerateSortCpu).message,
            "xla_ffi_accelerate.sort: operand x 1: expected a dtype with an "
            "order for a key, got dtype c128");
}

}  // namespace
}  // namespace xla_ffi_accelerate::sort
