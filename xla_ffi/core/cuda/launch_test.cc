// The kernels of rows.h and row_sums_launch.h, and the sums of row_reduce.h, on
// the emulator, for numbers whose sums are exact, and for fewer blocks than a
// launch would have.

#include "xla_ffi/core/cuda/launch.h"

#include <cstdint>
#include <numeric>
#include <vector>

#include "cuda_runtime.h"
#include "gtest/gtest.h"
#include "xla_ffi/core/cuda/row_plan.h"
#include "xla_ffi/core/cuda/row_reduce.h"
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
  };

  double Sum(const Args& args, int64_t row, const RowThread& place) const {
    return args.in[row * place.lanes + place.lane];
  }
  void Finish(const Args& args, int64_t row, const RowThread& place,
              double total) const {
    args.out[row * place.lanes + place.lane] = total;
  }
};

// The same, of a row that a cluster shares.
__global__ void SumOfCluster(const float* in, double* out, RowLanes lanes) {
  __shared__ double partial[32];
  __shared__ double of_blocks[kLargestCluster];
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  BeginCluster();
  double sum = SumOverRow(static_cast<double>(in[i]), lanes, partial);
  WaitForCluster();
  out[i] = SumOverCluster(sum, of_blocks);
}

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
  for (const int bits : {0, 1, 3, 5, 6, 8, 10}) {
    for (const int threads : {32, 256, 1024}) {
      if (threads < 1 << bits) continue;
      const std::vector<float> in = Numbers(kRows << bits);
      std::vector<double> out(in.size());
      const SumWork::Args args = {in.data(), out.data(), kRows};
      const RowLanes lanes = {bits, threads >> bits};
      ASSERT_EQ(Launch(RowKernel<SumWork>, {3, threads}, nullptr, args, lanes),
                cudaSuccess);
      EXPECT_EQ(out, SumsOfRows(in, 1 << bits)) << bits << " of " << threads;
    }
  }
}

TEST_P(LaunchTest, AClusterSumsARow) {
  for (const int cluster : {2, 4, 8}) {
    for (const int threads : {32, 96, 256}) {
      const std::vector<float> in = Numbers(3 * cluster * threads);
      std::vector<double> out(in.size());
      ASSERT_EQ(Launch(SumOfCluster, {3 * cluster, threads, 0, cluster},
                       nullptr, in.data(), out.data(), RowLanes()),
                cudaSuccess);
      EXPECT_EQ(out, SumsOfRows(in, cluster * threads))
          << cluster << " blocks of " << threads;
    }
  }
}

// As another thread's launch may come between what a launch asks for and the
// launch itself.
TEST_P(LaunchTest, AKernelMayHaveAllSharedMemoryThatThereIs) {
  const auto plan_for = [](const BlockLimits& limits) {
    return PlanWholePacks(1, 4096, 1, limits);
  };
  WholePackPlan plan;
  ASSERT_EQ(PlanOnDevice(SumOfCluster, plan_for, &plan), cudaSuccess);
  EXPECT_EQ(plan.shape.shared_bytes, 64 * 1024);
  const auto limits =
      testing::LimitsOf(reinterpret_cast<const void*>(SumOfCluster));
  EXPECT_EQ(limits.shared_bytes, 227 * 1024 - testing::kOtherSharedBytes);
}

TEST_P(LaunchTest, AnErrorDoesNotStayBehind) {
  const SumWork::Args args = {nullptr, nullptr, 1};
  EXPECT_NE(Launch(RowKernel<SumWork>, {1, 2048}, nullptr, args, RowLanes()),
            cudaSuccess);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

TEST_P(LaunchTest, SlotsAreAddedUp) {
  for (const int64_t count : {1, 7, 8, 36, 200}) {
    for (const bool is_early : {false, true}) {
      RowSums s = {3, 0, 5, 7};
      s.count = count;
      const std::vector<float> slots = Numbers(s.Size());
      std::vector<float> out(static_cast<size_t>(3 * count));
      ASSERT_EQ(LaunchSlotSums(slots.data(), s, out.data(), is_early, nullptr),
                cudaSuccess);
      EXPECT_EQ(testing::Launches().back().is_early, is_early);
      for (int64_t i = 0; i < 3 * count; ++i) {
        double expected = 0;
        for (int64_t slot = 0; slot < s.Slots(); ++slot) {
          expected += slots[(i / count * s.Slots() + slot) * count + i % count];
        }
        ASSERT_EQ(out[i], expected) << "column " << i << " of " << count;
      }
    }
  }
}

}  // namespace
}  // namespace xla_ffi_kit
