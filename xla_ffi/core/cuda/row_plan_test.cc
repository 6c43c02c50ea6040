#include "xla_ffi/core/cuda/row_plan.h"

#include <cstdint>
#include <vector>

#include "gtest/gtest.h"

namespace xla_ffi_kit {
namespace {

// What devices offer, less what a kernel's own sums take.
constexpr int64_t kOwn = 512;
struct FakeDevice {
  const char* name;
  BlockLimits limits;
};
const FakeDevice kDevices[] = {
    {"8.0", {163 * 1024 - kOwn, 1}},
    {"8.6, 8.9", {99 * 1024 - kOwn, 1}},
    {"9.0", {227 * 1024 - kOwn, 16}},
    {"9.0, a part of it", {227 * 1024 - kOwn, 4}},
    {"10.0", {227 * 1024 - kOwn, 16}},
    {"12.0", {99 * 1024 - kOwn, 8}},
};

void ExpectWithinLimits(const WholePackPlan& plan, int64_t rows, int64_t packs,
                        int arrays, const BlockLimits& limits) {
  if (plan.form == RowForm::kNone) return;
  const int threads = plan.shape.threads, cluster = plan.shape.cluster;
  ASSERT_EQ(threads % 32, 0) << "whole warps: all lanes take part in shuffles";
  ASSERT_GE(threads, 32);
  ASSERT_GE(plan.shape.blocks, 1);
  ASSERT_LE(plan.shape.blocks, kMaxBlocks);
  ASSERT_EQ(cluster, 1 << plan.lanes.cluster_bits);
  const int64_t lanes = int64_t{plan.lanes.Step(threads)} * cluster;
  ASSERT_GE(lanes * plan.packs_per_thread, packs) << "all packs are kept";
  if (plan.form == RowForm::kRegisters) {
    ASSERT_LE(threads, kMaxRegisterThreads);
    ASSERT_LE(plan.packs_per_thread * arrays, kMaxRegisterPacks);
    ASSERT_EQ(plan.shape.shared_bytes, 0);
    ASSERT_EQ(cluster, 1);
  } else {
    ASSERT_LE(threads, kMaxSharedThreads);
    ASSERT_EQ(plan.packs_per_thread, kSharedPacks);
    ASSERT_LE(cluster, limits.cluster);
    ASSERT_EQ(plan.lanes.rows, 1);
    ASSERT_EQ(plan.shape.shared_bytes,
              int64_t{kSharedPacks} * threads * arrays * kPackBytes);
    ASSERT_LE(plan.shape.shared_bytes, limits.shared_bytes);
  }
  // A row each, and no block without a row.
  const int64_t units = plan.shape.blocks / cluster;
  ASSERT_EQ(plan.shape.blocks % cluster, 0);
  ASSERT_GE(units * plan.lanes.rows, rows);
  ASSERT_LT((units - 1) * plan.lanes.rows, rows);
}

TEST(RowPlanTest, PlansAreWithinTheLimitsOfDevices) {
  for (const FakeDevice& device : kDevices) {
    SCOPED_TRACE(device.name);
    for (const int arrays : {1, 2}) {
      for (int64_t packs = 1; packs <= (1 << 18); packs += 1 + packs / 64) {
        for (int64_t rows = 1; rows <= kMaxRows; rows = rows * 3 + 1) {
          ExpectWithinLimits(PlanWholePacks(rows, packs, arrays, device.limits),
                             rows, packs, arrays, device.limits);
        }
      }
    }
  }
}

WholePackPlan Plan(int64_t packs, int device, int arrays = 1) {
  return PlanWholePacks(100000, packs, arrays, kDevices[device].limits);
}

TEST(RowPlanTest, FormsAreThoseThatWereTheFastest) {
  struct Expected {
    int64_t packs;
    RowForm form;
    int packs_per_thread, threads, rows, cluster;
  };
  // Rows of 128 bytes, 1000 bf16, 4, 8, 16, 24 KiB; then shared memory: 56, 64
  // and 128 KiB; then clusters: 256 KiB, 512 KiB, 1 MiB.
  const Expected expected[] = {
      {8, RowForm::kRegisters, 1, 256, 32, 1},
      {125, RowForm::kRegisters, 4, 256, 8, 1},
      {256, RowForm::kRegisters, 2, 128, 1, 1},
      {512, RowForm::kRegisters, 2, 256, 1, 1},
      {1024, RowForm::kRegisters, 4, 256, 1, 1},
      {1536, RowForm::kRegisters, 4, 384, 1, 1},
      {2048, RowForm::kRegisters, 4, 512, 1, 1},
      {3584, RowForm::kShared, 8, 448, 1, 1},
      {4096, RowForm::kShared, 8, 512, 1, 1},
      {8192, RowForm::kShared, 8, 1024, 1, 1},
      {16384, RowForm::kShared, 8, 128, 1, 16},
      {32768, RowForm::kShared, 8, 256, 1, 16},
      {65536, RowForm::kShared, 8, 512, 1, 16},
  };
  for (const Expected& e : expected) {
    SCOPED_TRACE(e.packs);
    const WholePackPlan plan = Plan(e.packs, /*device=*/2);
    EXPECT_EQ(plan.form, e.form);
    EXPECT_EQ(plan.packs_per_thread, e.packs_per_thread);
    EXPECT_EQ(plan.shape.threads, e.threads);
    EXPECT_EQ(plan.lanes.rows, e.rows);
    EXPECT_EQ(plan.shape.cluster, e.cluster);
  }
}

TEST(RowPlanTest, WhatDoesNotFitADeviceIsReadTwice) {
  const int64_t kib = 1024 / kPackBytes;
  // The longest row of each device, in KiB, and one that is longer.
  const int64_t longest[] = {128, 96, 2048, 512, 2048, 96 * 8};
  for (int device = 0; device < 6; ++device) {
    SCOPED_TRACE(kDevices[device].name);
    EXPECT_EQ(Plan(longest[device] * kib, device).form, RowForm::kShared);
    EXPECT_EQ(Plan(longest[device] * kib + 2048, device).form, RowForm::kNone);
  }
  // Two arrays take twice the room.
  EXPECT_EQ(Plan(48 * kib, 1, 2).form, RowForm::kShared);
  EXPECT_EQ(Plan(56 * kib, 1, 2).form, RowForm::kNone);
  EXPECT_EQ(Plan(112 * kib, 2, 2).shape.cluster, 1);
  EXPECT_EQ(Plan(128 * kib, 2, 2).shape.cluster, 8);
}

TEST(RowPlanTest, FewRowsHaveMoreThreads) {
  const auto threads = [](int64_t rows, int64_t packs) {
    return PlanWholePacks(rows, packs, 1, {}).shape.threads;
  };
  EXPECT_EQ(threads(1 << 20, 1024), 256);
  EXPECT_EQ(threads(16, 1024), 512);
  EXPECT_EQ(threads(16, 2048), 512) << "no more than there may be";
  EXPECT_EQ(threads(1 << 20, 8), 256);
  EXPECT_EQ(threads(16, 8), 32) << "each on a processor of its own";
}

TEST(RowPlanTest, MoreRowsThanAKernelCountsAreReadTwice) {
  EXPECT_EQ(PlanWholePacks(kMaxRows, 1, 1, {}).form, RowForm::kRegisters);
  EXPECT_EQ(PlanWholePacks(kMaxRows + 1, 1, 1, {}).form, RowForm::kNone);
  EXPECT_EQ(PlanWholePacks(kMaxBlocks + 1, 256, 1, {}).form, RowForm::kNone);
}

TEST(RowPlanTest, EveryRowHasItsLanesOnce) {
  for (const int64_t packs : {1, 2, 5, 8, 31, 64, 125, 300, 2048}) {
    for (const int64_t rows : {1, 2, 31, 257, 1000}) {
      const WholePackPlan plan = PlanWholePacks(rows, packs, 1, {});
      const int step = plan.lanes.Step(plan.shape.threads);
      std::vector<int> lanes_of_row(
          static_cast<size_t>(plan.shape.blocks * plan.lanes.rows));
      for (int64_t block = 0; block < plan.shape.blocks; ++block) {
        for (int thread = 0; thread < plan.shape.threads; ++thread) {
          const auto row = plan.lanes.Row(static_cast<unsigned>(block), thread);
          ASSERT_EQ(lanes_of_row.at(static_cast<size_t>(row))++ % step,
                    plan.lanes.Lane(thread));
        }
      }
      for (const int lanes : lanes_of_row) ASSERT_EQ(lanes, step);
    }
  }
}

}  // namespace
}  // namespace xla_ffi_kit
