#include "accelerate/kernels/select_and_scatter_add/select_and_scatter_add.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "xla_ffi/testing/call_frame.h"
#include "xla_ffi/testing/for_each_simd_target.h"

namespace xla_ffi_accelerate::select_and_scatter_add {
namespace {

namespace testing = ::xla_ffi_kit::testing;

using testing::CallFrame;

PoolDimension Dimension(int64_t size, int64_t window, int64_t stride,
                        int64_t low, int64_t high) {
  return {size, (size + low + high - window) / stride + 1, window, stride, low};
}

std::vector<Pool> Pools() {
  std::vector<Pool> pools;
  for (const int64_t inner : {1, 2, 3, 8, 21}) {
    for (const bool is_min : {false, true}) {
      for (const auto& [rows, columns] :
           std::vector<std::pair<PoolDimension, PoolDimension>>{
               {Dimension(6, 2, 2, 0, 0), Dimension(8, 2, 2, 0, 0)},
               {Dimension(7, 2, 2, 0, 0), Dimension(9, 3, 3, 1, 2)},
               {Dimension(7, 3, 2, 1, 1), Dimension(6, 3, 1, 1, 1)},
               {Dimension(5, 1, 1, 0, 0), Dimension(9, 4, 3, 3, 3)},
               {Dimension(5, 2, 4, 1, 0), Dimension(6, 6, 1, 0, 0)},
               {Dimension(3, 5, 1, 4, 0), Dimension(4, 6, 1, 5, 0)},
               {Dimension(3, 5, 2, 0, 4), Dimension(4, 2, 2, 0, 0)}}) {
        pools.push_back({3, inner, rows, columns, is_min});
      }
    }
  }
  return pools;
}

template <typename T>
std::vector<T> Values(int64_t n, std::mt19937_64& random) {
  using Limits = std::numeric_limits<T>;
  const T special[] = {T(0), T(-0.0), Limits::infinity(), -Limits::infinity(),
                       T(1), T(2),    Limits::quiet_NaN()};
  std::normal_distribution<T> normal;
  std::vector<T> values(n);
  for (T& v : values) v = random() % 3 ? special[random() % 7] : normal(random);
  return values;
}

// What the header promises.
template <typename T>
std::vector<T> Want(const Pool& pool, const std::vector<T>& operand,
                    const std::vector<T>& source) {
  const PoolDimension &rows = pool.rows, &columns = pool.columns;
  std::vector<T> want(operand.size());
  size_t next_source = 0;
  for (int64_t o = 0; o < pool.outer; ++o) {
    for (int64_t y = 0; y < rows.pooled; ++y) {
      for (int64_t x = 0; x < columns.pooled; ++x) {
        for (int64_t c = 0; c < pool.inner; ++c) {
          T best = 0;
          int64_t best_at = -1;
          for (int64_t p = 0; p < rows.window; ++p) {
            for (int64_t q = 0; q < columns.window; ++q) {
              const int64_t h = y * rows.stride - rows.padding + p;
              const int64_t w = x * columns.stride - columns.padding + q;
              const bool is_inside =
                  h >= 0 && h < rows.size && w >= 0 && w < columns.size;
              const int64_t at =
                  ((o * rows.size + h) * columns.size + w) * pool.inner + c;
              const T infinity = std::numeric_limits<T>::infinity();
              const T value = is_inside     ? operand[at]
                              : pool.is_min ? infinity
                                            : -infinity;
              const bool stays = pool.is_min ? best <= value : best >= value;
              if ((p == 0 && q == 0) || !stays) {
                best = value;
                best_at = is_inside ? at : -1;
              }
            }
          }
          const T s = source[next_source++];
          if (best_at >= 0) want[best_at] += s;
        }
      }
    }
  }
  return want;
}

template <typename T>
std::vector<T> RunPool(const Pool& pool, std::vector<T> operand,
                       std::vector<T> source, int64_t threads = 1) {
  const PoolDimension &rows = pool.rows, &columns = pool.columns;
  const auto pair = [](int64_t of_rows, int64_t of_columns) {
    return std::vector<int64_t>{of_rows, of_columns};
  };
  std::vector<T> got(operand.size(), T(7));
  const CallFrame::Dims dims = {pool.outer, rows.size, columns.size,
                                pool.inner};
  const auto status =
      CallFrame()
          .Arg(source, {pool.outer, rows.pooled, columns.pooled, pool.inner})
          .Arg(operand, dims)
          .Ret(got, dims)
          .Attr("window", pair(rows.window, columns.window))
          .Attr("strides", pair(rows.stride, columns.stride))
          .Attr("padding", pair(rows.padding, columns.padding))
          .Attr("is_min", int64_t{pool.is_min})
          .Threads(threads)
          .Run(XlaFfiAccelerateSelectAndScatterAddCpu);
  EXPECT_EQ(status.message, "");
  return got;
}

int64_t SourceSize(const Pool& pool) {
  return pool.outer * pool.rows.pooled * pool.columns.pooled * pool.inner;
}

template <typename T>
class PoolTest : public ::testing::Test {};
using Types = ::testing::Types<float, double>;
TYPED_TEST_SUITE(PoolTest, Types);

TYPED_TEST(PoolTest, AddsWhereTheElementIsSelected) {
  using T = TypeParam;
  testing::ForEachSimdTarget([&] {
    std::mt19937_64 random(1);
    for (const Pool& pool : Pools()) {
      const auto operand = Values<T>(
          pool.outer * pool.rows.size * pool.columns.size * pool.inner, random);
      auto source = Values<T>(SourceSize(pool), random);
      // One NaN has the bits of any other.
      for (T& s : source) s = s == s ? s : T(-0.0);
      const auto want = Want(pool, operand, source);
      const auto got = RunPool(pool, operand, source);
      for (size_t i = 0; i < got.size(); ++i) {
        const bool is_nan = got[i] != got[i] && want[i] != want[i];
        ASSERT_TRUE(is_nan || std::memcmp(&got[i], &want[i], sizeof(T)) == 0)
            << i << ": " << got[i] << " for " << want[i];
      }
    }
  });
}

TEST(PoolTest, ThreadsGiveTheSame) {
  const Pool pool = {2, 9, Dimension(200, 3, 2, 1, 1),
                     Dimension(201, 3, 2, 1, 1)};
  std::mt19937_64 random(1);
  const auto operand = Values<float>(2 * 200 * 201 * 9, random);
  auto source = Values<float>(SourceSize(pool), random);
  for (float& s : source) s = s == s ? s : 1.0f;
  const auto want = RunPool(pool, operand, source),
             got = RunPool(pool, operand, source, /*threads=*/3);
  EXPECT_EQ(std::memcmp(got.data(), want.data(), got.size() * sizeof(float)),
            0);
}

// The largest windows there are, each over the whole of a small operand: with a
// step for every element of theirs, this takes minutes.
TEST(PoolTest, WindowsLargerThanTheOperand) {
  const PoolDimension large = {4, 4, kMaxPoolWindow, 1, kMaxPoolWindow / 2};
  for (const int64_t inner : {1, 9}) {
    const std::vector<float> ones(16 * inner, 1);
    std::vector<float> want(16 * inner);
    std::fill_n(want.begin(), inner, 16.0f);  // the first of equal ones
    EXPECT_EQ(RunPool({1, inner, large, large}, ones, ones), want);
  }
}

TEST(PoolTest, WindowsBeyondTheOperandAreNone) {
  const PoolDimension beyond = {4, 2, kMaxPoolWindow, kMaxPoolSize,
                                kMaxPoolWindow};
  const std::vector<float> operand(32, 1), source(8, 1), zeros(32);
  EXPECT_EQ(RunPool({1, 2, beyond, beyond}, operand, source), zeros);
  const PoolDimension none = {4, 0, 2, 2};
  EXPECT_EQ(RunPool({1, 2, none, none}, operand, {}), zeros);
  const PoolDimension two = {4, 2, 2, 2};
  EXPECT_EQ(RunPool<float>({1, 0, two, two}, {}, {}), std::vector<float>());
}

}  // namespace
}  // namespace xla_ffi_accelerate::select_and_scatter_add
