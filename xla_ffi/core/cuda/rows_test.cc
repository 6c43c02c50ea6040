#include "xla_ffi/core/cuda/rows.h"

#include <cstdint>

#include "gtest/gtest.h"

namespace xla_ffi_kit {
namespace {

TEST(RowsTest, PlansAreWithinTheLimitsOfDevices) {
  for (int64_t packs = 1; packs <= (1 << 20); packs += 1 + packs / 64) {
    for (int64_t rows = 1; rows <= (int64_t{1} << 40); rows = rows * 3 + 1) {
      const RowPlan plan = PlanRows(rows, packs);
      const int threads = plan.shape.threads;
      ASSERT_EQ(threads % 32, 0)
          << "whole warps: all lanes take part in shuffles";
      ASSERT_GE(threads, 32);
      ASSERT_LE(threads, kMaxRowThreads);
      ASSERT_EQ(plan.lanes.rows << plan.lanes.lane_bits, threads);
      ASSERT_GE(plan.shape.blocks, 1);
      ASSERT_LE(plan.shape.blocks, kMaxBlocks);
      ASSERT_EQ(plan.shape.shared_bytes, 0);
      // Enough for a row each, or as many as there may be; none without a row.
      ASSERT_TRUE(plan.shape.blocks == kMaxBlocks ||
                  plan.shape.blocks * plan.lanes.rows >= rows);
      ASSERT_LT((plan.shape.blocks - 1) * plan.lanes.rows, rows);
    }
  }
}

TEST(RowsTest, ShortRowsShareABlock) {
  EXPECT_EQ(PlanRows(1 << 20, 1).lanes.rows, 256);
  EXPECT_EQ(PlanRows(1 << 20, 16).lanes.rows, 32);
  EXPECT_EQ(PlanRows(1 << 20, 2048).lanes.rows, 1);
  EXPECT_EQ(PlanRows(1, 1).shape.threads, 32) << "one warp for one row";
}

}  // namespace
}  // namespace xla_ffi_kit
