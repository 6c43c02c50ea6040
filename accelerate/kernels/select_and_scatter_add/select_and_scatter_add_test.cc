#include "accelerate/kernels/select_and_scatter_add/select_and_scatter_add.h"

#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "accelerate/kernels/select_and_scatter_add/select_and_scatter_add_handler.h"
#include "gtest/gtest.h"
#include "xla_ffi/testing/bad_frames.h"
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
               {Dimension(5, 2, 4, 1, 0), Dimension(6, 6, 1, 0, 0)}}) {
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
      auto source = Values<T>(SourceSize<T>(pool), random);
      // One NaN has the bits of any other.
      for (T& s : source) s = s == s ? s : T(-0.0);
      const auto want = Want(pool, operand, source);
      std::vector<T> got(want.size(), T(7));
      SelectAndScatterAdd(pool, operand.data(), source.data(), got.data(), {});
      for (size_t i = 0; i < got.size(); ++i) {
        const bool is_nan = got[i] != got[i] && want[i] != want[i];
        ASSERT_TRUE(is_nan || std::memcmp(&got[i], &want[i], sizeof(T)) == 0)
            << i << ": " << got[i] << " for " << want[i];
      }
    }
  });
}

CallFrame WithWindow(CallFrame frame, int64_t window, int64_t stride,
                     int64_t padding) {
  const std::vector<int64_t> windows = {window, window},
                             strides = {stride, stride},
                             paddings = {padding, padding};
  return frame.Attr("window", windows)
      .Attr("strides", strides)
      .Attr("padding", paddings)
      .Attr("is_min", int64_t{0});
}

TEST(SelectAndScatterAddHandlerTest, ThreadsGiveTheSame) {
  std::mt19937_64 random(1);
  auto operand = Values<float>(2 * 200 * 201 * 9, random);
  auto source = Values<float>(2 * 100 * 101 * 9, random);
  for (float& s : source) s = s == s ? s : 1.0f;
  std::vector<float> result(operand.size());
  const auto run = [&](int64_t threads) {
    const auto status = WithWindow(CallFrame()
                                       .Arg(source, {2, 100, 101, 9})
                                       .Arg(operand, {2, 200, 201, 9})
                                       .Ret(result, {2, 200, 201, 9})
                                       .Threads(threads),
                                   3, 2, 1)
                            .Run(XlaFfiAccelerateSelectAndScatterAddCpu);
    EXPECT_EQ(status.message, "");
    std::string bytes(result.size() * sizeof(float), '\0');
    std::memcpy(bytes.data(), result.data(), bytes.size());
    return bytes;
  };
  const std::string want = run(1);
  EXPECT_EQ(run(3), want);
}

class HandlerTest : public ::testing::Test {
 protected:
  CallFrame Frame(CallFrame::Dims source, CallFrame::Dims operand,
                  int64_t window = 2, int64_t stride = 2, int64_t padding = 0) {
    return WithWindow(CallFrame()
                          .Arg(source_, source)
                          .Arg(operand_, operand)
                          .Ret(result_, operand),
                      window, stride, padding);
  }
  CallFrame Good() { return Frame({1, 2, 2, 2}, {1, 4, 4, 2}); }
  std::string Message(CallFrame frame) {
    return frame.Run(XlaFfiAccelerateSelectAndScatterAddCpu).message;
  }

  std::vector<float> source_ = std::vector<float>(8, 1.0f);
  std::vector<float> operand_ = std::vector<float>(32, 1.0f);
  std::vector<float> result_ = std::vector<float>(32, 7.0f);
};

TEST_F(HandlerTest, RefusesWhatDoesNotFit) {
  EXPECT_EQ(Message(Good()), "");
  const std::string op = "xla_ffi_accelerate.select_and_scatter_add: ";
  EXPECT_EQ(Message(Frame({2, 2, 2}, {1, 4, 4, 2})),
            op + "operand source: expected rank 4, got rank 3");
  EXPECT_EQ(Message(Frame({1, 2, 2, 1}, {1, 4, 4, 2})),
            op + "operand source: expected batch and channels of operand "
                 "operand, of shape (1, 4, 4, 2), got shape (1, 2, 2, 1)");
  EXPECT_EQ(Message(Frame({1, 2, 2, 2}, {1, 4, 4, 2}, 0)),
            op + "attribute window: expected 1 to 32768, got 0");
  EXPECT_EQ(Message(Frame({1, 2, 2, 2}, {1, 4, 4, 2}, 2, 0)),
            op + "attribute strides: expected 1 to 1073741824, got 0");
  EXPECT_EQ(Message(Frame({1, 2, 2, 2}, {1, 4, 4, 2}, 2, 2, -1)),
            op + "attribute padding: expected 0 to 32768, got -1");
  EXPECT_EQ(Message(Good().Attr("window", std::vector<int64_t>{2})),
            op + "attribute window: expected 2 elements, got 1");
}

TEST_F(HandlerTest, WindowsBeyondTheOperandAreNone) {
  EXPECT_EQ(Message(Frame({1, 2, 2, 2}, {1, 4, 4, 2}, 32768, 1 << 30, 32768)),
            "");
  EXPECT_EQ(result_[0], 0);
  EXPECT_EQ(Message(Frame({1, 0, 0, 2}, {1, 4, 4, 2})), "");
  EXPECT_EQ(Message(Frame({1, 2, 2, 0}, {1, 4, 4, 0})), "");
}

TEST_F(HandlerTest, RefusesBadFrames) {
  testing::ExpectRefusesBadFrames(XlaFfiAccelerateSelectAndScatterAddCpu,
                                  Good());
  testing::ExpectRefusesNullData(
      XlaFfiAccelerateSelectAndScatterAddCpu, Good(),
      "xla_ffi_accelerate.select_and_scatter_add",
      {"operand source", "operand operand", "result"});
}

}  // namespace
}  // namespace xla_ffi_accelerate::select_and_scatter_add
