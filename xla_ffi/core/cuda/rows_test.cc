#include "xla_ffi/core/cuda/rows.h"

#include <cstdint>
#include <vector>

#include "gtest/gtest.h"

namespace xla_ffi_kit {
namespace {

constexpr int64_t kMaxShared = 227 * 1024;  // of compute capability 9.0

RowPlan Plan(int64_t rows, int64_t packs) {
  return PlanRows(rows, packs, 16, {kMaxShared, kMaxCluster});
}

void ExpectWithinLimits(const RowPlan& plan, int64_t packs) {
  const int threads = plan.shape.threads, lanes = plan.threads_per_row;
  ASSERT_EQ(lanes & (lanes - 1), 0) << "a power of two";
  ASSERT_EQ(threads % 32, 0) << "whole warps: all lanes take part in shuffles";
  ASSERT_EQ(threads % lanes, 0);
  ASSERT_GE(threads, 32);
  ASSERT_GE(plan.shape.blocks, 1);
  ASSERT_LE(plan.shape.blocks, kMaxBlocks);
  ASSERT_LE(plan.shape.shared_bytes, kMaxShared);
  if (plan.path == RowPath::kRegisters) {
    ASSERT_LE(threads, kMaxThreadsInRegisters);
    ASSERT_GE(int64_t{lanes} * kPacksPerThread, packs) << "all packs are kept";
    ASSERT_EQ(plan.shape.shared_bytes, 0);
  } else {
    ASSERT_LE(threads, 1024);
    ASSERT_EQ(lanes, threads) << "a block or more per row";
    ASSERT_EQ(plan.shape.shared_bytes, plan.slots * 16);
    ASSERT_EQ(plan.shape.cluster > 1, plan.path == RowPath::kCluster);
    ASSERT_LE(plan.shape.cluster, kMaxCluster);
    ASSERT_EQ(plan.shape.blocks % plan.shape.cluster, 0);
    if (plan.path != RowPath::kReload) {
      // The last lane's last pack has a slot, and all blocks' slots hold a row.
      const int64_t all_lanes = int64_t{lanes} * plan.shape.cluster;
      ASSERT_GE(plan.slots * plan.shape.cluster, packs);
      if (plan.path == RowPath::kCluster) {
        ASSERT_GE(plan.slots, (packs - 1) / all_lanes * threads + threads);
      }
    }
  }
}

TEST(RowsTest, PlansAreWithinTheLimitsOfDevices) {
  for (int64_t n = 1; n <= (1 << 20); n += 1 + n / 64) {
    for (int64_t rows = 1; rows <= (int64_t{1} << 31); rows = rows * 3 + 1) {
      const RowPlan plan = Plan(rows, n);
      ExpectWithinLimits(plan, n);
      // Enough for a row each, or as many as there may be.
      const int64_t units = plan.shape.blocks / plan.shape.cluster;
      ASSERT_TRUE(plan.shape.blocks + plan.shape.cluster > kMaxBlocks ||
                  units * plan.RowsPerBlock() >= rows);
      // No block without a row.
      ASSERT_LT((units - 1) * plan.RowsPerBlock(), rows);
    }
  }
}

TEST(RowsTest, LongerRowsGoFromRegistersToSharedMemoryToMemory) {
  EXPECT_EQ(Plan(100, 2048).path, RowPath::kRegisters);
  EXPECT_EQ(Plan(100, 2049).path, RowPath::kShared);
  EXPECT_EQ(Plan(100, kMaxShared / 16).path, RowPath::kShared);
  EXPECT_EQ(Plan(100, kMaxShared / 16 + 1).path, RowPath::kCluster);
  EXPECT_EQ(Plan(100, kMaxShared / 16 + 1).shape.cluster, 2);
  EXPECT_EQ(Plan(100, kMaxShared / 16 * 3).shape.cluster, 4);
  EXPECT_EQ(Plan(100, 1 << 16).shape.cluster, 8) << "1 MiB";
  EXPECT_EQ(Plan(100, kMaxShared / 16 * 8 + 1).path, RowPath::kReload);
  const RowPlan without =
      PlanRows(100, kMaxShared / 16 + 1, 16, {kMaxShared, /*cluster=*/1});
  EXPECT_EQ(without.path, RowPath::kReload);
  EXPECT_EQ(without.shape.cluster, 1);
}

TEST(RowsTest, ShortRowsShareABlock) {
  EXPECT_EQ(Plan(1 << 20, 1).RowsPerBlock(), 256);
  EXPECT_EQ(Plan(1 << 20, 16).RowsPerBlock(), 32);
  EXPECT_EQ(Plan(1 << 20, 2048).RowsPerBlock(), 1);
  EXPECT_EQ(Plan(1, 1).shape.threads, 32) << "one warp for one row";
}

// Walks through the rows as RowKernel does.
std::vector<int> VisitRows(int64_t rows, const RowPlan& plan, int64_t blocks) {
  std::vector<int> lanes_in_row(static_cast<size_t>(rows));
  const int threads = plan.shape.threads, lanes = plan.threads_per_row;
  for (int64_t block = 0; block < blocks; ++block) {
    for (int thread = 0; thread < threads; ++thread) {
      for (int64_t row = FirstRow(block, thread, threads, lanes); row < rows;
           row += RowStep(blocks, threads, lanes)) {
        ++lanes_in_row[static_cast<size_t>(row)];
      }
    }
  }
  return lanes_in_row;
}

TEST(RowsTest, EveryRowIsCoveredOnceByItsLanes) {
  for (const int64_t packs : {1, 2, 5, 8, 31, 64, 300, 2048, 3000}) {
    for (const int64_t rows : {1, 2, 31, 257, 1000}) {
      const RowPlan plan = Plan(rows, packs);
      const std::vector<int> once(static_cast<size_t>(rows),
                                  plan.threads_per_row);
      EXPECT_EQ(VisitRows(rows, plan, plan.shape.blocks), once)
          << packs << " packs, " << rows << " rows";
      EXPECT_EQ(VisitRows(rows, plan, 3), once) << "fewer blocks than rows";
    }
  }
}

TEST(RowsTest, RowNumbersAre64Bit) {
  EXPECT_EQ(FirstRow(kMaxBlocks - 1, 511, 512, 1),
            (kMaxBlocks - 1) * 512 + 511);
  EXPECT_EQ(RowStep(kMaxBlocks, 512, 2), kMaxBlocks * 256);
}

}  // namespace
}  // namespace xla_ffi_kit
