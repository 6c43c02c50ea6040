#include "xla_ffi/core/cuda/launch.h"

#include "cuda_runtime.h"
#include "gtest/gtest.h"
#include "xla_ffi/testing/cuda/emulator.h"

namespace xla_ffi_kit {
namespace {

__global__ void Nothing() {}

struct Plan {
  LaunchShape shape;
};

// As another thread's launch may come between what a launch asks for and the
// launch itself.
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

}  // namespace
}  // namespace xla_ffi_kit
