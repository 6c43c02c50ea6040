#include "xla_ffi/core/cuda/ring_plan.h"

#include <cstdint>
#include <vector>

#include "gtest/gtest.h"

namespace xla_ffi_kit {
namespace {

constexpr int64_t kSumBytes = 32;  // of a pack of 16-bit numbers
constexpr int64_t kOwn = 2560;     // shared memory of the kernel itself
const BlockLimits kA100 = {163 * 1024 - kOwn, 1};
const BlockLimits kL40 = {99 * 1024 - kOwn, 1};  // 8.9; and 12.0
const BlockLimits kH100 = {227 * 1024 - kOwn, 16, true};
const BlockLimits kPartOfH100 = {227 * 1024 - kOwn, 8, true};

RingPlan Plan(int64_t packs, const BlockLimits& limits, int arrays = 2,
              int64_t rows = 1 << 20) {
  return PlanRing(rows, packs, arrays, kSumBytes, limits);
}

TEST(RingPlanTest, PlansAreWithinTheLimitsOfDevices) {
  for (const BlockLimits& limits : {kA100, kL40, kH100, kPartOfH100}) {
    for (int64_t packs = 1; packs <= (1 << 16); packs += 1 + packs / 64) {
      for (const int64_t rows : {0, 1, 5, 1 << 20}) {
        for (const int arrays : {2, 3}) {
          const RingPlan plan = Plan(packs, limits, arrays, rows);
          if (!plan.fits) continue;
          const int threads = plan.shape.threads;
          ASSERT_EQ(threads % 32, 0);
          ASSERT_LE(threads, MaxRingThreads(plan.packs, plan.rows));
          ASSERT_LE(plan.shape.shared_bytes, limits.shared_bytes);
          ASSERT_LE(plan.shape.cluster, limits.cluster);
          ASSERT_EQ(plan.shape.cluster, 1 << plan.lanes.cluster_bits);
          const int64_t lanes =
              int64_t{plan.lanes.Step(threads)} * plan.shape.cluster;
          ASSERT_GE(lanes * plan.packs, packs) << "all packs are kept";
          ASSERT_TRUE(plan.lanes.rows == 1 || plan.shape.cluster == 1);
        }
      }
    }
  }
}

TEST(RingPlanTest, FormsAreThoseThatWereTheFastest) {
  struct Expected {
    int64_t packs;
    int of_thread, rows, threads, cluster;
  };
  for (const Expected& e : std::vector<Expected>{{8, 1, 2, 256, 1},
                                                 {125, 1, 2, 256, 1},
                                                 {256, 1, 2, 256, 1},
                                                 {640, 1, 1, 640, 1},
                                                 {1024, 1, 1, 1024, 1},
                                                 {1536, 2, 1, 192, 4},
                                                 {2048, 2, 1, 128, 8},
                                                 {4096, 2, 1, 256, 8},
                                                 {8192, 2, 1, 256, 16},
                                                 {16384, 2, 1, 512, 16}}) {
    SCOPED_TRACE(e.packs);
    const RingPlan plan = Plan(e.packs, kH100);
    EXPECT_TRUE(plan.fits);
    EXPECT_EQ(plan.packs, e.of_thread);
    EXPECT_EQ(plan.rows, e.rows);
    EXPECT_EQ(plan.shape.threads, e.threads);
    EXPECT_EQ(plan.shape.cluster, e.cluster);
  }
}

TEST(RingPlanTest, WhatDoesNotFitADeviceIsReadTwice) {
  EXPECT_FALSE(Plan(16385, kH100).fits);
  EXPECT_TRUE(Plan(8192, kPartOfH100).fits);
  EXPECT_FALSE(Plan(8193, kPartOfH100).fits);
  for (const BlockLimits& limits : {kA100, kL40}) {
    for (const int arrays : {2, 3}) {
      EXPECT_TRUE(Plan(1000, limits, arrays).fits);
      EXPECT_FALSE(Plan(1025, limits, arrays).fits);
    }
  }
  // More rows than a kernel counts.
  RingPlan plan = Plan(1, kH100);
  PlanRingSums(1, kMaxRows + 1, 1, 264, 1024, &plan);
  EXPECT_FALSE(plan.fits);
}

TEST(RingPlanTest, AGroupOfFewRowsHasASmallBlock) {
  EXPECT_EQ(Plan(8, kH100, 2, 4).shape.threads, 32);
  EXPECT_EQ(Plan(8, kH100, 2, 100).shape.threads, 256);
}

RowSums Sums(int64_t groups, int64_t rows, int64_t packs, int64_t resident,
             int64_t slots, RingPlan* plan) {
  *plan = Plan(packs, kH100, 2, rows);
  return PlanRingSums(groups, rows, packs * 8, resident, slots, plan);
}

// Walks through the rows as WeightBackwardRing does: where the slot begins that
// each row is added to.
std::vector<int64_t> SlotOfRows(const RowSums& s, const RingPlan& plan) {
  std::vector<int64_t> slots(static_cast<size_t>(s.groups * s.rows), -1);
  const int64_t rows_per_step = plan.RowsPerStep();
  for (int64_t unit = 0; unit < plan.shape.blocks / plan.shape.cluster;
       ++unit) {
    const int64_t group = unit / s.parts, part = unit % s.parts;
    const int64_t end = (group + 1) * s.rows;
    int64_t first = group * s.rows + part * rows_per_step;
    for (int64_t slot = 0; slot < s.slots_per_part; ++slot) {
      for (int64_t step = 0; step < s.steps_per_slot && first < end; ++step) {
        for (int64_t i = 0; i < rows_per_step && first + i < end; ++i) {
          int64_t& of_row = slots.at(static_cast<size_t>(first + i));
          EXPECT_EQ(of_row, -1) << "twice";
          of_row = s.SlotBegin(group, part, slot);
        }
        first += s.parts * rows_per_step;
      }
    }
  }
  return slots;
}

TEST(RingPlanTest, EveryRowIsInOneSlotOfItsGroup) {
  for (const int64_t packs : {1, 8, 31, 300, 2048}) {
    for (const int64_t rows : {1, 2, 63, 257, 5000}) {
      for (const int64_t groups : {1, 2, 7}) {
        for (const int64_t resident : {1, 4, 264}) {
          for (const int64_t room : {1, 3, 1000}) {
            RingPlan plan;
            const RowSums s = Sums(groups, rows, packs, resident, room, &plan);
            ASSERT_TRUE(plan.fits);
            ASSERT_LE(s.Slots(), room);
            const std::vector<int64_t> slots = SlotOfRows(s, plan);
            for (int64_t row = 0; row < groups * rows; ++row) {
              const int64_t slot = slots[static_cast<size_t>(row)];
              ASSERT_GE(slot, s.SlotBegin(row / rows, 0, 0));
              ASSERT_LT(slot, s.SlotBegin(row / rows + 1, 0, 0));
            }
          }
        }
      }
    }
  }
}

TEST(RingPlanTest, NoSlotHasMoreThanAFewRowsOfAThread) {
  for (const int64_t packs : {1, 128, 256, 1024, 16384}) {
    RingPlan plan;
    const RowSums s = Sums(1, 1 << 20, packs, 132, 1 << 20, &plan);
    EXPECT_EQ(s.parts, 132);
    EXPECT_LE(s.steps_per_slot * plan.rows, kRowsPerSlot);
  }
}

TEST(RingPlanTest, NoPartsWithoutRows) {
  RingPlan plan;
  EXPECT_EQ(Sums(1, 0, 1, 264, 1024, &plan).parts, 1);
  EXPECT_EQ(Sums(1, 2, 1024, 264, 1024, &plan).parts, 1);
  EXPECT_EQ(Sums(1, 100, 1024, 264, 1024, &plan).parts, 50);
  EXPECT_EQ(Sums(1, 1 << 20, 1024, 264, 1024, &plan).parts, 264);
  EXPECT_EQ(Sums(100, 1 << 20, 1024, 264, 1024, &plan).parts, 2);
  EXPECT_EQ(Sums(1000, 1 << 20, 1024, 264, 1024, &plan).parts, 1);
}

}  // namespace
}  // namespace xla_ffi_kit
