// The kernels of rows.h and row_sums_launch.h on the emulator, for numbers
// whose sums are exact, and for fewer blocks than a launch would have.

#include "xla_ffi/core/cuda/launch.h"

#include <cstdint>
#include <numeric>
#include <vector>

#include "cuda_runtime.h"
#include "gtest/gtest.h"
#include "xla_ffi/core/cuda/row_sums.h"
#include "xla_ffi/core/cuda/row_sums_launch.h"
#include "xla_ffi/core/cuda/rows.h"
#include "xla_ffi/testing/cuda/emulator.h"

namespace xla_ffi_kit {
namespace {

using testing::Device;

// Rows of one number to a thread: each becomes the row's sum.
struct SumWork {
  struct Args {
    const float* in;
    double* out;
    int64_t rows;
    float* sums;  // of columns
  };
  using A = float;
  static constexpr int kMaxThreads = 1024;

  double Sum(const Args& args, int64_t row, const RowThread& place) const {
    return args.in[row * place.lanes + place.lane];
  }
  void Finish(const Args& args, int64_t row, const RowThread& place,
              double total) {
    args.out[row * place.lanes + place.lane] = total;
    column += args.in[row * place.lanes + place.lane];
  }

  void Fetch(const Args&, int64_t, const RowThread&) {}
  void StoreSums(const Args&, const RowThread& place, A* sums) {
    sums[place.lane] = column;
    column = 0;
  }

  A column = 0;
};

class LaunchTest : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override { Device().is_backwards = GetParam(); }
  void TearDown() override { Device() = {}; }
};
INSTANTIATE_TEST_SUITE_P(BothOrders, LaunchTest, ::testing::Bool());

std::vector<float> Numbers(int64_t count) {
  std::vector<float> numbers(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    numbers[static_cast<size_t>(i)] = static_cast<float>(i * i % 1009 - 300);
  }
  return numbers;
}

std::vector<double> SumsOfRows(const std::vector<float>& in, int lanes) {
  std::vector<double> sums;
  for (auto it = in.begin(); it != in.end(); it += lanes) {
    sums.insert(sums.end(), lanes, std::accumulate(it, it + lanes, 0.0));
  }
  return sums;
}

TEST_P(LaunchTest, ABlockSumsManyRows) {
  constexpr int64_t kRows = 37;
  for (const int lanes : {1, 2, 8, 32, 64, 256, 1024}) {
    for (const int threads : {32, 256, 1024}) {
      if (threads < lanes) continue;
      const std::vector<float> in = Numbers(kRows * lanes);
      std::vector<double> out(in.size());
      const SumWork::Args args = {in.data(), out.data(), kRows, nullptr};
      const RowKernelPlan plan = {lanes, 1, 0, false};
      ASSERT_EQ(Launch(RowKernel<SumWork>, {3, threads}, nullptr, args, plan),
                cudaSuccess);
      EXPECT_EQ(out, SumsOfRows(in, lanes)) << lanes << " of " << threads;
    }
  }
}

TEST_P(LaunchTest, AClusterSumsManyRows) {
  constexpr int64_t kRows = 5;
  for (const int cluster : {2, 4, 8}) {
    for (const int threads : {32, 256}) {
      const std::vector<float> in = Numbers(kRows * cluster * threads);
      std::vector<double> out(in.size());
      const SumWork::Args args = {in.data(), out.data(), kRows, nullptr};
      const RowKernelPlan plan = {threads, cluster, 0, false};
      ASSERT_EQ(Launch(RowKernel<SumWork>, {2 * cluster, threads, 0, cluster},
                       nullptr, args, plan),
                cudaSuccess);
      EXPECT_EQ(out, SumsOfRows(in, cluster * threads))
          << cluster << " blocks of " << threads;
    }
  }
}

// As another thread's launch may come between what a launch asks for and the
// launch itself.
TEST_P(LaunchTest, ShortRowsLeaveLongerOnesTheirSharedMemory) {
  constexpr int64_t kPackBytes = 16, kLong = 12000, kShort = 2100;
  const std::vector<float> in = Numbers(1024);
  std::vector<double> out(in.size());
  const SumWork::Args args = {in.data(), out.data(), 1, nullptr};
  void (*kernel)(SumWork::Args, RowKernelPlan) = RowKernel<SumWork>;
  for (const int64_t packs : {kLong, kShort}) {
    ASSERT_EQ(LaunchWideRows<SumWork>(args, packs, kPackBytes, nullptr),
              cudaSuccess);
    EXPECT_EQ(testing::Launches().back().shared_bytes, packs * kPackBytes);
    const auto limits =
        testing::LimitsOf(reinterpret_cast<const void*>(kernel));
    EXPECT_GE(limits.shared_bytes, kLong * kPackBytes);
  }
}

TEST_P(LaunchTest, AnErrorDoesNotStayBehind) {
  const SumWork::Args args = {nullptr, nullptr, 1, nullptr};
  EXPECT_NE(Launch(RowKernel<SumWork>, {1, 2048}, nullptr, args,
                   RowKernelPlan{32, 1, 0, false}),
            cudaSuccess);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

TEST_P(LaunchTest, ABlockSumsManyPartsOfColumns) {
  constexpr int64_t kGroups = 3, kRows = 500;
  for (const int lanes : {1, 8, 32, 64, 256}) {
    for (const int threads : {32, 256}) {
      if (threads < lanes) continue;
      RowPlan rows;
      rows.threads_per_row = lanes;
      rows.shape.threads = threads;
      RowSumsPlan plan = PlanRowSums(rows, kGroups, kRows, lanes, sizeof(float),
                                     /*resident=*/6);
      plan.shape.blocks = 2;
      const std::vector<float> in = Numbers(kGroups * kRows * lanes);
      std::vector<double> out(in.size());
      std::vector<float> slots(static_cast<size_t>(plan.sums.Size()), -1);
      std::vector<float> columns(static_cast<size_t>(kGroups * lanes));
      const SumWork::Args args = {in.data(), out.data(), kGroups * kRows,
                                  slots.data()};
      ASSERT_EQ(
          Launch(RowSumsKernel<SumWork>, plan.shape, nullptr, args, plan.sums),
          cudaSuccess);
      EXPECT_EQ(out, SumsOfRows(in, lanes)) << lanes << " of " << threads;
      LaunchShape shape = PlanSlotSums(kGroups, lanes);
      shape.blocks = 2;
      ASSERT_EQ(Launch(SlotSumsKernel<float, float>, shape, nullptr,
                       static_cast<const float*>(slots.data()), plan.sums,
                       columns.data()),
                cudaSuccess);
      for (int64_t i = 0; i < kGroups * lanes; ++i) {
        double expected = 0;
        for (int64_t row = 0; row < kRows; ++row) {
          expected += in[(i / lanes * kRows + row) * lanes + i % lanes];
        }
        ASSERT_EQ(columns[i], expected) << "column " << i;
      }
    }
  }
}

}  // namespace
}  // namespace xla_ffi_kit
