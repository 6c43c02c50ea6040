#include "xla_ffi/core/cuda/rows.h"

#include <cstdint>
#include <vector>

#include "gtest/gtest.h"

namespace xla_ffi_kit {
namespace {

constexpr int64_t kMaxShared = 227 * 1024;  // of compute capability 9.0

RowPlan Plan(int64_t rows, int64_t packs) {
  return PlanRows(rows, packs, packs * 16, kMaxShared);
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
    ASSERT_EQ(lanes, threads) << "a block per row";
    ASSERT_EQ(plan.shape.shared_bytes,
              plan.path == RowPath::kShared ? packs * 16 : 0);
  }
}

TEST(RowsTest, PlansAreWithinTheLimitsOfDevices) {
  for (int64_t n = 1; n <= (1 << 20); n += 1 + n / 64) {
    for (int64_t rows = 1; rows <= (int64_t{1} << 31); rows = rows * 3 + 1) {
      const RowPlan plan = Plan(rows, n);
      ExpectWithinLimits(plan, n);
      // Enough for a row each, or as many as there may be.
      ASSERT_TRUE(plan.shape.blocks == kMaxBlocks ||
                  plan.shape.blocks * plan.RowsPerBlock() >= rows);
      // No block without a row.
      ASSERT_LT((plan.shape.blocks - 1) * plan.RowsPerBlock(), rows);
    }
  }
}

TEST(RowsTest, LongerRowsGoFromRegistersToSharedMemoryToMemory) {
  EXPECT_EQ(Plan(100, 2048).path, RowPath::kRegisters);
  EXPECT_EQ(Plan(100, 2049).path, RowPath::kShared);
  EXPECT_EQ(Plan(100, kMaxShared / 16).path, RowPath::kShared);
  EXPECT_EQ(Plan(100, kMaxShared / 16 + 1).path, RowPath::kReload);
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
