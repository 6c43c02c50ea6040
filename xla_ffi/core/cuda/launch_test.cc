#include "xla_ffi/core/cuda/launch.h"

#include <cstdint>
#include <vector>

#include "cuda_runtime.h"
#include "gtest/gtest.h"
#include "xla_ffi/core/cuda/elementwise.h"
#include "xla_ffi/core/cuda/pack.h"
#include "xla_ffi/testing/cuda/emulator.h"

namespace xla_ffi_kit {
namespace {

__global__ void Nothing() {}

struct Plan {
  LaunchShape shape;
};

// Else a launch on another thread, which asks for less, could come between what
// a launch asks for and the launch itself.
TEST(LaunchTest, AKernelMayHaveAllSharedMemoryThatThereIs) {
  Plan plan;
  ASSERT_EQ(PlanOnDevice(
                Nothing,
                [](const BlockLimits&) {
                  return Plan{{1, 32, /*shared_bytes=*/64 * 1024}};
                },
                &plan),
            cudaSuccess);
  EXPECT_EQ(plan.shape.shared_bytes, 64 * 1024);
  const auto limits = testing::LimitsOf(reinterpret_cast<const void*>(Nothing));
  EXPECT_EQ(limits.shared_bytes, 227 * 1024 - testing::kOtherSharedBytes);
}

// A part of a GPU may have too few processors together for the largest ones.
TEST(LaunchTest, AClusterIsNoLargerThanTheDeviceRuns) {
  const auto plan_for = [](const BlockLimits& limits) {
    return Plan{{/*blocks=*/0, 32, 0, limits.cluster}};
  };
  for (const int processors : {16, 8, 3, 1}) {
    testing::Device().processors = processors;
    Plan plan;
    ASSERT_EQ(PlanOnDevice(Nothing, plan_for, &plan), cudaSuccess);
    EXPECT_LE(plan.shape.cluster, processors);
    EXPECT_GT(2 * plan.shape.cluster, processors);
    int64_t units = 0;
    ASSERT_EQ(ResidentUnits(Nothing, plan.shape, &units), cudaSuccess);
    EXPECT_GE(units, 1);
  }
  testing::Device() = {};
}

TEST(LaunchTest, AnErrorDoesNotStayBehind) {
  EXPECT_NE(Launch(Nothing, {1, 2048}, nullptr), cudaSuccess);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

struct Count {
  std::vector<int>* visits;

  template <int N>
  void operator()(int64_t i, Width<N>) const {
    for (int k = 0; k < N; ++k) ++visits->at(static_cast<size_t>(i + k));
  }
};

TEST(ElementwiseTest, ThreadsVisitEveryElementOnce) {
  for (const int64_t count : {1, 2, 7, 8, 9, 255, 2048, 4099}) {
    for (const int64_t threads : {1, 3, 256, 10'000}) {
      std::vector<int> visits(static_cast<size_t>(count));
      for (int64_t thread = 0; thread < threads; ++thread) {
        ForEachPack<8>(thread, threads, count, Count{&visits});
      }
      EXPECT_EQ(visits, std::vector<int>(visits.size(), 1))
          << count << " elements, " << threads << " threads";
    }
  }
}

TEST(ElementwiseTest, PlanHasAThreadForEveryPackWithinTheLimits) {
  for (const int width : {1, 2, 4, 8, 16}) {
    for (int64_t count = 1; count <= (int64_t{1} << 50);
         count = count * 3 + 1) {
      const LaunchShape shape = PlanElementwise(count, width);
      ASSERT_GE(shape.blocks, 1);
      ASSERT_LE(shape.blocks, kMaxBlocks);
      ASSERT_LE(shape.threads, 1024);
      const int64_t threads = shape.blocks * shape.threads;
      ASSERT_TRUE(shape.blocks == kMaxBlocks || threads >= count / width);
      // Not a whole block without work.
      ASSERT_LT(threads - shape.threads, count);
    }
  }
}

TEST(PackTest, LoadsAndStoresBytes) {
  alignas(kPackBytes) uint16_t from[8] = {1, 2, 3, 4, 5, 6, 7, 8}, to[8] = {};
  EXPECT_TRUE(IsPackAligned(from));
  EXPECT_FALSE(IsPackAligned(from + 1));
  StorePack(LoadPack<8>(from), to);
  for (int i = 0; i < 8; ++i) EXPECT_EQ(to[i], from[i]);
  EXPECT_EQ(kPackWidth<uint16_t>, 8);
}

}  // namespace
}  // namespace xla_ffi_kit
