#include "xla_ffi/core/cuda/row_sums.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "gtest/gtest.h"

namespace xla_ffi_kit {
namespace {

constexpr int64_t kMaxShared = 48 * 1024;  // without asking for more
constexpr int64_t kWidth = 4;              // components of a pack, floats

RowSumsPlan Plan(int64_t groups, int64_t rows, int64_t packs,
                 int64_t resident) {
  return PlanRowSums(PlanRowsOfGroups(groups, rows, packs), groups, rows,
                     packs * kWidth, /*sum_bytes=*/4, resident);
}

TEST(RowSumsTest, PlansAreWithinTheLimitsOfDevices) {
  for (int64_t packs = 1; packs <= 2048; packs += 1 + packs / 16) {
    for (int64_t rows = 0; rows <= (int64_t{1} << 31); rows = rows * 3 + 1) {
      for (const int64_t groups : {1, 3, 1000, 1 << 20}) {
        const RowSumsPlan plan = Plan(groups, rows, packs, 264);
        const RowSums& s = plan.sums;
        const int threads = plan.shape.threads;
        const int64_t in_block = threads / s.lanes;
        ASSERT_EQ(threads % 32, 0);
        ASSERT_LE(threads, kMaxThreadsInRegisters);
        ASSERT_EQ(threads % s.lanes, 0);
        ASSERT_GE(int64_t{s.lanes} * kPacksPerThread, packs);
        ASSERT_GE(plan.shape.blocks, 1);
        ASSERT_LE(plan.shape.blocks, kMaxBlocks);
        ASSERT_LE(plan.shape.shared_bytes, kMaxShared);
        ASSERT_EQ(plan.shape.shared_bytes,
                  in_block > 1 ? in_block * s.count * 4 : 0);
        // The slots hold all rows.
        ASSERT_GE(s.Slots() * in_block * kRowsPerSlot, rows);
        // Scratch memory is a small part of a large input.
        ASSERT_LE(s.Slots(), rows / (in_block * kMinRowsPerPart) +
                                 rows / kRowsPerSlot + 2);
      }
    }
  }
}

TEST(RowSumsTest, NoTypeNeedsMoreSharedMemoryThanEveryKernelHas) {
  struct Sums {
    int64_t width, bytes;  // components of a pack, bytes of one's sum
  };
  for (const Sums& sums : {Sums{1, 4}, Sums{1, 8}, Sums{2, 8}, Sums{8, 4}}) {
    for (int64_t packs = 1; packs <= 2048; ++packs) {
      const RowSumsPlan plan =
          PlanRowSums(PlanRowsOfGroups(1, 1 << 20, packs), 1, 1 << 20,
                      packs * sums.width, sums.bytes, /*resident=*/264);
      ASSERT_LE(plan.shape.shared_bytes + int64_t{32 * sizeof(double)},
                kMaxShared)
          << packs << " packs of " << sums.width;
    }
  }
}

TEST(RowSumsTest, NoPartsWithoutRows) {
  EXPECT_EQ(Plan(1, 0, 1, 264).sums.parts, 1);
  EXPECT_EQ(Plan(1, 4, 2048, 264).sums.parts, 1);
  EXPECT_EQ(Plan(1, 100, 2048, 264).sums.parts, 25);
  EXPECT_EQ(Plan(1, 1 << 20, 2048, 264).sums.parts, 264);
  EXPECT_EQ(Plan(100, 1 << 20, 2048, 264).sums.parts, 2);
  EXPECT_EQ(Plan(1000, 1 << 20, 2048, 264).sums.parts, 1);
}

TEST(RowSumsTest, AGroupOfFewRowsHasASmallBlock) {
  EXPECT_EQ(Plan(1 << 20, 4, 8, 264).shape.threads, 32);
  EXPECT_EQ(Plan(1 << 20, 100, 8, 264).shape.threads, 256);
}

// Walks through the rows as RowSumsKernel does: which (group, part, slot) each
// row is added to, as where that slot begins.
std::vector<int64_t> SlotOfRows(const RowSumsPlan& plan) {
  const RowSums& s = plan.sums;
  const int in_block = plan.shape.threads / s.lanes;
  std::vector<int64_t> slots(static_cast<size_t>(s.groups * s.rows), -1);
  for (int64_t unit = 0; unit < s.groups * s.parts; ++unit) {
    const int64_t group = unit / s.parts, part = unit % s.parts;
    const int64_t end = (group + 1) * s.rows;
    int64_t first = group * s.rows + part * in_block;
    for (int64_t slot = 0; slot < s.slots_per_part; ++slot) {
      for (int i = 0; i < kRowsPerSlot && first < end;
           ++i, first += s.parts * in_block) {
        for (int64_t row = first; row < std::min(first + in_block, end);
             ++row) {
          EXPECT_EQ(slots[static_cast<size_t>(row)], -1) << "twice";
          slots[static_cast<size_t>(row)] = s.SlotBegin(group, part, slot);
        }
      }
    }
  }
  return slots;
}

TEST(RowSumsTest, EveryRowIsInOneSlotOfItsGroup) {
  for (const int64_t packs : {1, 8, 31, 300, 2048}) {
    for (const int64_t rows : {1, 2, 63, 257, 5000}) {
      for (const int64_t groups : {1, 2, 7}) {
        for (const int64_t resident : {1, 4, 264}) {
          const RowSumsPlan plan = Plan(groups, rows, packs, resident);
          const std::vector<int64_t> slots = SlotOfRows(plan);
          for (int64_t row = 0; row < groups * rows; ++row) {
            const int64_t group = row / rows;
            const int64_t slot = slots[static_cast<size_t>(row)];
            ASSERT_GE(slot, plan.sums.SlotBegin(group, 0, 0));
            ASSERT_LT(slot, plan.sums.SlotBegin(group + 1, 0, 0));
          }
        }
      }
    }
  }
}

TEST(ColumnSumsTest, BlocksCoverAllColumnsAndParts) {
  for (const int64_t packs : {2049, 4096, 100000}) {
    for (const int64_t rows : {0, 1, 100, 1 << 20}) {
      for (const int64_t groups : {1, 5, 1000}) {
        const ColumnSumsPlan plan =
            PlanColumnSums(groups, rows, packs, packs * kWidth, 1056);
        const RowSums& s = plan.columns.sums;
        EXPECT_GE(plan.columns.column_blocks * kColumnThreads, packs);
        EXPECT_LT((plan.columns.column_blocks - 1) * kColumnThreads, packs);
        EXPECT_EQ(plan.shape.blocks,
                  groups * plan.columns.column_blocks * s.parts);
        EXPECT_GE(s.parts, 1);
        EXPECT_LE(s.parts, rows / kMinRowsPerPart + 1);
        EXPECT_EQ(s.slots_per_part, 1);
      }
    }
  }
}

TEST(SlotSumsTest, WarpsShareTheSlotsOfEachColumn) {
  RowSums s;
  s.groups = 3;
  s.parts = 5;
  s.slots_per_part = 7;
  s.count = 33;
  std::vector<float> sums(static_cast<size_t>(s.Size()));
  for (size_t i = 0; i < sums.size(); ++i) sums[i] = static_cast<float>(i % 97);
  for (int64_t group = 0; group < s.groups; ++group) {
    for (int64_t column = 0; column < s.count; ++column) {
      double want = 0, got = 0;
      for (int64_t slot = 0; slot < s.Slots(); ++slot) {
        want += sums[(group * s.Slots() + slot) * s.count + column];
      }
      for (int warp = 0; warp < kSlotWarps; ++warp) {
        got += SlotSum(sums.data(), s, group, column, warp);
      }
      ASSERT_EQ(got, want);
    }
  }
  EXPECT_EQ(PlanSlotSums(3, 33).blocks, 6);
  EXPECT_EQ(PlanSlotSums(int64_t{1} << 31, 32).blocks, kMaxBlocks);
}

TEST(SlotSumsTest, RowsOfABlockAreSummedInDouble) {
  const std::vector<float> shared = {1, 1e8f, -1e8f, 2, 3, 4};
  EXPECT_EQ(SumOfRows(shared.data(), 3, 2, 0), 1 + -1e8f + 3);
  EXPECT_EQ(SumOfRows(std::vector<float>{1e8f, 1, -1e8f}.data(), 3, 1, 0), 1);
}

}  // namespace
}  // namespace xla_ffi_kit
