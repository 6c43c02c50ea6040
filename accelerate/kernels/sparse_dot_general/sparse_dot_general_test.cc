#include "accelerate/kernels/sparse_dot_general/sparse_dot_general.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "xla_ffi/testing/call_frame.h"
#include "xla_ffi/testing/for_each_simd_target.h"
#include "xla_ffi/testing/threaded_pool.h"

namespace xla_ffi_accelerate::sparse_dot_general {
namespace {

namespace testing = ::xla_ffi_kit::testing;

using testing::CallFrame;

// Indices of rows and columns, and elements that have them.
template <typename T, typename I>
struct Case {
  Case(int64_t batch, int64_t entries, int64_t rows, int64_t length,
       int64_t columns, bool is_sorted, std::mt19937_64& random)
      : indices(batch * entries * 2),
        data(batch * entries),
        rhs(batch * length * columns),
        out(batch * rows * columns, T(7)) {
    for (auto* values : {&data, &rhs}) {
      for (T& value : *values) {
        value = static_cast<T>(std::normal_distribution<double>()(random));
      }
    }
    // Some lie before, and some behind the matrix.
    const auto index = [&](int64_t size) {
      const auto range = static_cast<uint64_t>(2 * size + size / 4 + 2);
      return static_cast<I>(static_cast<int64_t>(random() % range) - size - 1);
    };
    for (size_t e = 0; e < data.size(); ++e) {
      indices[2 * e] = is_sorted
                           ? static_cast<I>(e % entries * (rows + 3) / entries)
                           : index(rows);
      indices[2 * e + 1] = index(length);
    }
    problem.batch = batch;
    problem.entries = entries;
    problem.rows = rows;
    problem.length = length;
    problem.columns = columns;
    problem.data = data.data();
    problem.rhs = rhs.data();
    problem.out = out.data();
    problem.data_stride = entries;
    problem.rhs_stride = length * columns;
    coordinates.indices = indices.data();
    coordinates.stride = 2 * entries;
  }

  // One product after the other, each rounded.
  void Add(int64_t b, int64_t e, int64_t row, int64_t column,
           std::vector<T>* sums) const {
    const auto& p = problem;
    row = row < 0 ? row + p.rows : row;
    column = column < 0 ? column + p.length : column;
    if (row < 0 || row >= p.rows) return;
    for (int64_t j = 0; j < p.columns; ++j) {
      const bool is_inside = column >= 0 && column < p.length;
      const T y =
          is_inside ? p.rhs[b * p.rhs_stride + column * p.columns + j] : T(0);
      const volatile T product = p.data[b * p.data_stride + e] * y;
      T& sum = (*sums)[(b * p.rows + row) * p.columns + j];
      sum = sum + product;
    }
  }

  void ExpectWanted() const {
    std::vector<T> want(out.size());
    for (int64_t b = 0; b < problem.batch; ++b) {
      const I* const at = coordinates.indices + b * coordinates.stride;
      for (int64_t e = 0; e < problem.entries; ++e) {
        Add(b, e, at[2 * e + 1 - coordinates.contracting],
            at[2 * e + coordinates.contracting], &want);
      }
    }
    ExpectSame(want);
  }

  void ExpectSame(const std::vector<T>& want) const {
    for (size_t i = 0; i < want.size(); ++i) {
      if (std::isnan(want[i]) && std::isnan(out[i])) continue;
      ASSERT_EQ(std::memcmp(&out[i], &want[i], sizeof(T)), 0)
          << "at " << i << ": " << out[i] << ", not " << want[i];
    }
  }

  // Exactly as long as they are: a sanitizer sees what is read beyond.
  std::vector<I> indices;
  std::vector<T> data, rhs, out;
  SparseProblem<T> problem;
  CoordinateIndices<I> coordinates;
};

template <typename P>
class SparseDotGeneralTest : public ::testing::Test {};

template <typename T, typename I>
struct Pair {
  using Value = T;
  using Index = I;
};
using Types = ::testing::Types<Pair<float, int32_t>, Pair<double, int32_t>,
                               Pair<float, int64_t>, Pair<double, int64_t>>;
TYPED_TEST_SUITE(SparseDotGeneralTest, Types);

TYPED_TEST(SparseDotGeneralTest, CoordinatesOfEveryShape) {
  using T = typename TypeParam::Value;
  using I = typename TypeParam::Index;
  testing::ForEachSimdTarget([] {
    std::mt19937_64 random(1);
    for (const int64_t entries : {0, 1, 2, 50}) {
      for (const int64_t columns : {0, 1, 2, 3, 7, 15, 16, 33, 70}) {
        for (const bool is_sorted : {false, true}) {
          for (const int64_t contracting : {0, 1}) {
            // Rows and length are the same where both are indexed wrongly.
            Case<T, I> c(2, entries, 9, 9, columns, is_sorted, random);
            c.coordinates.contracting = contracting;
            MultiplyCoordinates(c.problem, c.coordinates, {});
            ASSERT_NO_FATAL_FAILURE(c.ExpectWanted())
                << entries << " in " << columns << ", " << contracting;
          }
        }
      }
    }
  });
}

TYPED_TEST(SparseDotGeneralTest, RowsOfEveryShape) {
  using T = typename TypeParam::Value;
  using I = typename TypeParam::Index;
  testing::ForEachSimdTarget([] {
    std::mt19937_64 random(2);
    for (const int64_t rows : {0, 1, 7}) {
      for (const int64_t columns : {0, 1, 2, 3, 7, 15, 16, 33, 70}) {
        const int64_t entries = rows == 1 ? 0 : 40;
        Case<T, I> c(2, entries, rows, 9, columns, false, random);
        std::vector<I> starts, places;
        // In order at first, then any numbers, extreme ones among them.
        for (int64_t i = 0; i < 2 * (rows + 1); ++i) {
          starts.push_back(static_cast<I>(
              i <= rows ? i * 45 / (rows + 1)
              : i % 3   ? static_cast<int64_t>(random() % 60) - 10
                        : std::numeric_limits<I>::min() + (random() % 2)));
        }
        for (int64_t e = 0; e < 2 * entries; ++e) {
          places.push_back(c.indices[2 * e + 1]);
        }
        RowIndices<I> indices;
        indices.indices = places.data();
        indices.starts = starts.data();
        indices.indices_stride = entries;
        indices.starts_stride = rows + 1;
        MultiplyRows(c.problem, indices, {});
        std::vector<T> want(c.out.size());
        for (int64_t b = 0; b < 2; ++b) {
          for (int64_t row = 0; row < rows; ++row) {
            const I* const at = &starts[b * (rows + 1) + row];
            const auto end = std::min<int64_t>(at[1], entries);
            for (auto e = std::max<int64_t>(at[0], 0); e < end; ++e) {
              c.Add(b, e, row, places[b * entries + e], &want);
            }
          }
        }
        ASSERT_NO_FATAL_FAILURE(c.ExpectSame(want)) << rows << ", " << columns;
      }
    }
  });
}

// With zeros where there is none: inf times 0.
TEST(SparseDotGeneralNanTest, ColumnsOutOfRangeHaveZeros) {
  std::mt19937_64 random(3);
  Case<float, int32_t> c(1, 3, 2, 2, 1, false, random);
  c.indices = {0, 2, 1, -3, 5, 0};
  c.data = {std::numeric_limits<float>::infinity(), 1,
            std::numeric_limits<float>::quiet_NaN()};
  MultiplyCoordinates(c.problem, c.coordinates, {});
  EXPECT_TRUE(std::isnan(c.out[0]));
  EXPECT_EQ(c.out[1], 0);  // the NaN has no row
}

// Steps down where the elements of a thread begin: taken for sorted, two
// threads would add to the same rows.
TEST(SparseDotGeneralThreadsTest, ASawIsNotSorted) {
  std::mt19937_64 random(5);
  testing::ThreadedPool pool(3);
  for (const int64_t teeth : {2, 8, 12, 16}) {
    Case<float, int32_t> c(1, 192'000, 2000, 3000, 32, true, random);
    const int64_t period = c.problem.entries / teeth;
    for (int64_t e = 0; e < c.problem.entries; ++e) {
      c.indices[2 * e] = static_cast<int32_t>(e % period * 2000 / period);
    }
    MultiplyCoordinates(c.problem, c.coordinates, pool);
    ASSERT_NO_FATAL_FAILURE(c.ExpectWanted()) << teeth;
  }
}

TEST(SparseDotGeneralThreadsTest, ThreadsShareTheWork) {
  std::mt19937_64 random(4);
  for (const int64_t columns : {1, 32}) {
    for (const bool is_sorted : {true, false}) {
      Case<float, int32_t> c(1, 100'000, 2000, 3000, columns, is_sorted,
                             random);
      testing::ThreadedPool pool(3);
      MultiplyCoordinates(c.problem, c.coordinates, pool);
      ASSERT_EQ(pool.scheduled() > 0, is_sorted || columns > 1);
      ASSERT_NO_FATAL_FAILURE(c.ExpectWanted());
    }
  }
  // Rows of two matrices, which share all but rhs.
  Case<double, int64_t> c(2, 60'000, 20'000, 3000, 3, true, random);
  c.problem.data_stride = 0;
  std::vector<int64_t> starts(20'001), places;
  for (size_t i = 0; i < starts.size(); ++i) {
    starts[i] = static_cast<int64_t>(i * 3);
  }
  for (int64_t e = 0; e < 60'000; ++e) places.push_back(c.indices[2 * e + 1]);
  RowIndices<int64_t> indices;
  indices.indices = places.data();
  indices.starts = starts.data();
  testing::ThreadedPool pool(3);
  MultiplyRows(c.problem, indices, pool);
  ASSERT_GT(pool.scheduled(), 0);
  std::vector<double> want(c.out.size());
  for (int64_t e = 0; e < 120'000; ++e) {
    c.Add(e / 60'000, e % 60'000, e % 60'000 / 3, places[e % 60'000], &want);
  }
  ASSERT_NO_FATAL_FAILURE(c.ExpectSame(want));
}

// | 0 2 0 |
// | 5 0 3 |
class SparseDotGeneralHandlerTest : public ::testing::Test {
 protected:
  std::vector<double> data_ = {2, 3, 5}, out_ = std::vector<double>(8),
                      rhs_ = {1, 2, 10, 20, 100, 200, 3, 4, 30, 40, 300, 400};
  std::vector<int32_t> coordinates_ = {0, 1, 1, 2, 1, 0};
  std::vector<int64_t> indices_ = {1, 2, 0}, indptr_ = {0, 1, 3};

  CallFrame Bcoo() {
    return CallFrame()
        .Arg(data_, {1, 3})
        .Arg(coordinates_, {1, 3, 2})
        .Arg(rhs_, {2, 3, 2})
        .Ret(out_, {2, 2, 2})
        .Attr("contracting", int64_t{1});
  }
  CallFrame Bcsr() {
    return CallFrame()
        .Arg(data_, {1, 3})
        .Arg(indices_, {1, 3})
        .Arg(indptr_, {1, 3})
        .Arg(rhs_, {2, 3, 2})
        .Ret(out_, {2, 2, 2});
  }
};

const std::vector<double> kWant = {20, 40, 305, 610, 60, 80, 915, 1220};

TEST_F(SparseDotGeneralHandlerTest, OneMatrixForTheWholeBatch) {
  EXPECT_EQ(Bcoo().Run(XlaFfiAccelerateBcooDotGeneralCpu).message, "");
  EXPECT_EQ(out_, kWant);
  out_.assign(8, 0);
  EXPECT_EQ(Bcsr().Run(XlaFfiAccelerateBcsrDotGeneralCpu).message, "");
  EXPECT_EQ(out_, kWant);
}

TEST_F(SparseDotGeneralHandlerTest, RefusesAnotherBatch) {
  const auto message = [](CallFrame frame, XLA_FFI_Handler* handler,
                          size_t arg) {
    frame.args()[arg].dims[0] = 3;
    return frame.Run(handler).message;
  };
  EXPECT_EQ(message(Bcoo(), XlaFfiAccelerateBcooDotGeneralCpu, 1),
            "xla_ffi_accelerate.bcoo_dot_general: operand indices: expected a "
            "batch of 1 or 2 like result out, got shape (3, 3, 2)");
  const std::string refused = ": expected a batch of 1 or 2 like result out";
  for (const size_t arg : {0, 1, 2}) {
    EXPECT_NE(
        message(Bcoo(), XlaFfiAccelerateBcooDotGeneralCpu, arg).find(refused),
        std::string::npos)
        << arg;
  }
  for (const size_t arg : {0, 1, 2, 3}) {
    EXPECT_NE(
        message(Bcsr(), XlaFfiAccelerateBcsrDotGeneralCpu, arg).find(refused),
        std::string::npos)
        << arg;
  }
}

TEST_F(SparseDotGeneralHandlerTest, RefusesStartsOfOtherRows) {
  CallFrame frame = Bcsr();
  frame.args()[2].dims = {1, 2};
  EXPECT_EQ(frame.Run(XlaFfiAccelerateBcsrDotGeneralCpu).message,
            "xla_ffi_accelerate.bcsr_dot_general: operand indptr: expected a "
            "last axis of one more than the 2 rows of result out, got shape "
            "(1, 2)");
}

}  // namespace
}  // namespace xla_ffi_accelerate::sparse_dot_general
