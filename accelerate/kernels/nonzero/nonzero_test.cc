#include "accelerate/kernels/nonzero/nonzero.h"

#include <cstdint>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "xla_ffi/testing/call_frame.h"
#include "xla_ffi/testing/for_each_simd_target.h"
#include "xla_ffi/testing/threaded_pool.h"

namespace xla_ffi_accelerate::nonzero {
namespace {

namespace testing = ::xla_ffi_kit::testing;

using testing::CallFrame;

// Of `rows` rows of the mask.
template <typename Index>
void RunNonzero(const std::vector<uint8_t>& mask, int64_t rows, int64_t size,
                Index fill, Index* indices, const Executor& executor) {
  NonzeroProblem<Index> problem;
  problem.rows = rows;
  problem.length = static_cast<int64_t>(mask.size()) / rows;
  problem.size = size;
  problem.fill = fill;
  problem.mask = mask.data();
  problem.indices = indices;
  Nonzero(problem, executor);
}

template <typename Index>
void CheckEverySize() {
  std::mt19937_64 random(1);
  for (const int64_t n : {0, 1, 7, 8, 9, 64, 1000}) {
    for (const int64_t size : {0, 1, 7, 8, 100, 1200}) {
      for (const uint64_t one_in : {1, 2, 30, 2000}) {
        std::vector<uint8_t> mask(3 * n);
        for (uint8_t& bit : mask) bit = random() % one_in == 0;
        std::vector<Index> got(3 * size, -1), want;
        for (int64_t row = 0; row < 3; ++row) {
          for (int64_t i = 0; i < n; ++i) {
            const auto so_far = static_cast<int64_t>(want.size());
            if (mask[row * n + i] && so_far < (row + 1) * size) {
              want.push_back(static_cast<Index>(i));
            }
          }
          want.resize((row + 1) * size, Index{-7});
        }
        RunNonzero(mask, 3, size, Index{-7}, got.data(), {});
        ASSERT_EQ(got, want) << n << ", " << size << ", " << one_in;
      }
    }
  }
}

TEST(NonzeroTest, EverySizeOfIndices) {
  testing::ForEachSimdTarget([] {
    CheckEverySize<int32_t>();
    CheckEverySize<int64_t>();
  });
}

TEST(NonzeroTest, LongRowsAreShared) {
  std::mt19937_64 random(2);
  const int64_t n = 2'200'003;
  for (const uint64_t one_in : {1, 3, 5000}) {
    std::vector<uint8_t> mask(2 * n);
    for (uint8_t& bit : mask) bit = random() % one_in == 0;
    for (const int64_t size : {int64_t{1}, int64_t{70}, n / 3, n, n + 9}) {
      std::vector<int32_t> got(2 * size + 1, -1), want(2 * size + 1, -1);
      testing::ThreadedPool pool(3);
      RunNonzero(mask, 2, size, 5, want.data(), {});
      RunNonzero(mask, 2, size, 5, got.data(), pool);
      ASSERT_GT(pool.scheduled(), 0u);
      ASSERT_EQ(got, want) << size << ", " << one_in;
    }
  }
}

TEST(NonzeroHandlerTest, IndicesOfEachRow) {
  std::vector<uint8_t> mask = {0, 1, 1, 0, 0, 1};
  std::vector<int32_t> indices(4);
  CallFrame frame;
  frame.Arg(XLA_FFI_DataType_PRED, mask.data(), {2, 3})
      .Ret(indices, {2, 2})
      .Attr("size", int64_t{2})
      .Attr("fill", int64_t{3});
  EXPECT_EQ(frame.Run(XlaFfiAccelerateNonzeroCpu).message, "");
  EXPECT_EQ(indices, (std::vector<int32_t>{1, 2, 2, 3}));
  frame.Attr("fill", int64_t{1} << 31);
  EXPECT_EQ(
      frame.Run(XlaFfiAccelerateNonzeroCpu).message,
      "xla_ffi_accelerate.nonzero: attribute fill: expected a number of 32 "
      "bits, got 2147483648");
}

TEST(NonzeroHandlerTest, LongRowsHaveWideIndices) {
  const int64_t n = int64_t{1} << 31;
  std::vector<int32_t> narrow;
  std::vector<int64_t> wide;
  const auto run = [&](auto& indices) {
    return CallFrame()
        .Arg(XLA_FFI_DataType_PRED, nullptr, {0, n})
        .Ret(indices, {0, 1})
        .Attr("size", int64_t{1})
        .Attr("fill", n)
        .Run(XlaFfiAccelerateNonzeroCpu)
        .message;
  };
  EXPECT_EQ(run(narrow),
            "xla_ffi_accelerate.nonzero: result indices: expected dtype s64 "
            "for a row of 2^31 elements or more, got dtype s32");
  EXPECT_EQ(run(wide), "");
}

}  // namespace
}  // namespace xla_ffi_accelerate::nonzero
