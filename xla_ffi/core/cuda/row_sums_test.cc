#include "xla_ffi/core/cuda/row_sums.h"

#include <cstdint>
#include <vector>

#include "gtest/gtest.h"

namespace xla_ffi_kit {
namespace {

TEST(RowSumsTest, SlotsHoldAllRowsWhereThereIsRoom) {
  for (const int64_t rows : {0, 1, 127, 129, 5000, 1 << 20}) {
    for (const int64_t parts : {1, 3, 264}) {
      for (const int64_t room : {1, 300, 1 << 20}) {
        if (room < parts) continue;
        const RowSums s = MakeRowSums(2, rows, 8, parts, /*rows_per_step=*/8,
                                      /*rows_of_thread=*/2, room);
        ASSERT_GE(s.slots_per_part, 1);
        ASSERT_LE(s.Slots(), room);
        ASSERT_GE(s.Slots() * s.steps_per_slot * 8, rows);
        ASSERT_EQ(s.Size(), 2 * s.Slots() * 8);
        if (room == 1 << 20) {
          ASSERT_LE(s.steps_per_slot * 2, kRowsPerSlot);
        }
      }
    }
  }
}

TEST(ColumnSumsTest, BlocksCoverAllColumnsAndParts) {
  for (const int64_t packs : {3, 2049, 4096, 100000}) {
    for (const int64_t rows : {0, 1, 100, 1 << 20}) {
      for (const int64_t groups : {1, 5, 1000}) {
        for (const int64_t room : {1, 7, 100000}) {
          const ColumnSumsPlan plan =
              PlanColumnSums(groups, rows, packs, packs * 4, 1056, room);
          const RowSums& s = plan.columns.sums;
          EXPECT_GE(plan.columns.column_blocks * kColumnThreads, packs);
          EXPECT_LT((plan.columns.column_blocks - 1) * kColumnThreads, packs);
          EXPECT_EQ(plan.shape.blocks,
                    groups * plan.columns.column_blocks * s.parts);
          EXPECT_GE(s.parts, 1);
          EXPECT_LE(s.parts, rows / kMinRowsPerPart + 1);
          EXPECT_LE(s.parts, room);
          EXPECT_EQ(s.slots_per_part, 1);
        }
      }
    }
  }
}

TEST(SlotSumsTest, BlocksCoverAllColumns) {
  EXPECT_EQ(PlanSlotSums(3, 33, 1).blocks, 15);
  EXPECT_EQ(PlanSlotSums(3, 36, 4).blocks, 6);
  EXPECT_EQ(PlanSlotSums(int64_t{1} << 31, 32, 4).blocks, kMaxBlocks);
}

TEST(SlotSumsTest, RowsOfABlockAreSummedInDouble) {
  const std::vector<float> shared = {1, 1e8f, -1e8f, 2, 3, 4};
  EXPECT_EQ(SumOfRows(shared.data(), 3, 2, 0), 1 + -1e8f + 3);
  EXPECT_EQ(SumOfRows(std::vector<float>{1e8f, 1, -1e8f}.data(), 3, 1, 0), 1);
}

}  // namespace
}  // namespace xla_ffi_kit
