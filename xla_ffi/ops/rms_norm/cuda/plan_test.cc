// Launches within the limits of devices, of the forms that were the fastest.
// That kernels so launched do every row once is what rms_norm_cuda_test.cc
// shows.

#include "xla_ffi/ops/rms_norm/cuda/plan.h"

#include <cstdint>
#include <vector>

#include "gtest/gtest.h"

namespace xla_ffi_kit::rms_norm_internal {
namespace {

// The limits of devices, without the shared memory of a kernel's own sums.
constexpr int64_t kOwn = 2560;
struct FakeDevice {
  const char* name;
  BlockLimits limits;
};
const FakeDevice kDevices[] = {
    {"8.0", {163 * 1024 - kOwn, 1}},
    {"8.6, 8.9", {99 * 1024 - kOwn, 1}},
    {"9.0, 10.0", {227 * 1024 - kOwn, 16, true}},
    {"9.0, a part of it", {227 * 1024 - kOwn, 4, true}},
    {"12.0", {99 * 1024 - kOwn, 8, true}},
};
const BlockLimits kH100 = kDevices[2].limits;

RowPlan Pipeline(int64_t rows, int64_t vectors, const BlockLimits& limits,
                 int arrays = 2) {
  constexpr int64_t kSumBytes = 32;  // of a vector of 16-bit numbers
  return PlanPipeline(rows, vectors, arrays, kSumBytes, limits);
}

// --- Limits ------------------------------------------------------------------

void ExpectWholeWarps(const RowPlan& plan, int64_t vectors, int most_threads,
                      const BlockLimits& limits) {
  ASSERT_EQ(plan.shape.threads % 32, 0)
      << "whole warps: all lanes take part in shuffles";
  ASSERT_GE(plan.shape.threads, 32);
  ASSERT_LE(plan.shape.threads, most_threads);
  ASSERT_EQ(plan.shape.cluster, 1 << plan.lanes.cluster_bits);
  ASSERT_LE(plan.shape.cluster, limits.cluster);
  ASSERT_LE(plan.shape.shared_bytes, limits.shared_bytes);
  ASSERT_TRUE(plan.lanes.rows == 1 || plan.shape.cluster == 1);
  if (plan.form == RowForm::kReadTwice) return;
  const int64_t lanes =
      int64_t{plan.lanes.Step(plan.shape.threads)} * plan.shape.cluster;
  ASSERT_GE(lanes * plan.vectors, vectors) << "all vectors are kept";
}

// There are blocks for all rows, and there is no block without a row.
void ExpectBlocksForRows(const RowPlan& plan, int64_t rows) {
  ASSERT_GE(plan.shape.blocks, 1);
  ASSERT_LE(plan.shape.blocks, kMaxBlocks);
  ASSERT_EQ(plan.shape.blocks % plan.shape.cluster, 0);
  const int64_t units = plan.shape.blocks / plan.shape.cluster;
  ASSERT_TRUE(units * plan.lanes.rows >= rows || units == kMaxBlocks);
  ASSERT_LT((units - 1) * plan.lanes.rows, rows);
}

constexpr BlockLimits kNothingShared = {0, 1};

void ExpectWithinLimits(int64_t rows, int64_t vectors,
                        const BlockLimits& limits) {
  const RowPlan twice = PlanReadTwice(rows, vectors);
  ExpectWholeWarps(twice, vectors, 1024, kNothingShared);
  ExpectBlocksForRows(twice, rows);
  ASSERT_EQ(twice.lanes.rows << twice.lanes.lane_bits, twice.shape.threads);
  for (const int arrays : {1, 2}) {
    const RowPlan plan = PlanReadOnce(rows, vectors, arrays, limits);
    if (plan.form == RowForm::kReadTwice) continue;
    ExpectBlocksForRows(plan, rows);
    if (plan.form == RowForm::kRegisters) {
      ExpectWholeWarps(plan, vectors, kMaxRegisterThreads, kNothingShared);
      ASSERT_LE(plan.vectors * arrays, kMaxRegisterVectors);
    } else {
      ExpectWholeWarps(plan, vectors, kMaxSharedThreads, limits);
      ASSERT_EQ(
          plan.shape.shared_bytes,
          int64_t{kSharedVectors} * plan.shape.threads * arrays * kPackBytes);
    }
  }
  for (const int arrays : {2, 3}) {
    for (const int64_t of_weight : {rows, int64_t{0}}) {
      const RowPlan plan = Pipeline(of_weight, vectors, limits, arrays);
      if (plan.form == RowForm::kReadTwice) continue;
      ExpectWholeWarps(plan, vectors, MaxPipelineThreads(plan.rows), limits);
      ASSERT_EQ(plan.vectors, PipelineVectors(plan.rows));
    }
  }
}

// In vectors; where plans change, and around it.
std::vector<int64_t> Lengths() {
  std::vector<int64_t> lengths;
  for (int64_t n = 1; n <= 1 << 18; n += 1 + n / 64) lengths.push_back(n);
  for (int64_t n = 4; n <= 1 << 18; n *= 2) {
    for (const int64_t more : {n / 2, int64_t{0}}) {
      for (int64_t near = -1; near <= 1; ++near) {
        lengths.push_back(n + more + near);
      }
    }
  }
  return lengths;
}

TEST(PlanLimitsTest, AreThoseOfEveryDevice) {
  for (const FakeDevice& device : kDevices) {
    SCOPED_TRACE(device.name);
    for (const int64_t vectors : Lengths()) {
      for (int64_t rows = 1; rows <= int64_t{1} << 40; rows = rows * 3 + 1) {
        ExpectWithinLimits(rows, vectors, device.limits);
        ASSERT_FALSE(HasFatalFailure()) << rows << " rows of " << vectors;
      }
    }
  }
}

TEST(PlanLimitsTest, MoreRowsThanAKernelCountsAreReadTwice) {
  EXPECT_EQ(PlanReadOnce(kMaxRows, 1, 1, {}).form, RowForm::kRegisters);
  EXPECT_EQ(PlanReadOnce(kMaxRows + 1, 1, 1, {}).form, RowForm::kReadTwice);
  EXPECT_EQ(PlanReadOnce(kMaxBlocks + 1, 256, 1, {}).form, RowForm::kReadTwice);
  RowPlan plan = Pipeline(1, 1, kH100);
  PlanPipelineSums(1, kMaxRows + 1, 1, 264, 1024, &plan);
  EXPECT_EQ(plan.form, RowForm::kReadTwice);
  EXPECT_EQ(PlanTotals(int64_t{1} << 31, 32, 4).blocks, kMaxBlocks);
}

// --- Forms -------------------------------------------------------------------

// The plan for so many rows of so many vectors.
struct Expected {
  int64_t rows, of_row;
  int vectors, rows_of_thread, threads, rows_of_block, cluster;
};
void ExpectLike(const Expected& e, const RowPlan& plan) {
  SCOPED_TRACE(::testing::Message() << e.rows << " rows of " << e.of_row);
  EXPECT_EQ(plan.vectors, e.vectors);
  EXPECT_EQ(plan.rows, e.rows_of_thread);
  EXPECT_EQ(plan.shape.threads, e.threads);
  EXPECT_EQ(plan.lanes.rows, e.rows_of_block);
  EXPECT_EQ(plan.shape.cluster, e.cluster);
}

constexpr int64_t kMany = 1 << 20;

TEST(PlanFormsTest, OfRowsReadOnce) {
  // Rows of 128 bytes, 1000 bf16, 4, 8, 16, 24 KiB; then shared memory: 56, 64
  // and 128 KiB; then clusters: 256 KiB, 512 KiB, 1 MiB. Then few rows, which
  // have more threads, no more than there may be, or a processor each.
  for (const Expected& e :
       std::vector<Expected>{{kMany, 8, 1, 1, 256, 32, 1},
                             {kMany, 125, 4, 1, 256, 8, 1},
                             {kMany, 256, 2, 1, 128, 1, 1},
                             {kMany, 512, 2, 1, 256, 1, 1},
                             {kMany, 1024, 4, 1, 256, 1, 1},
                             {kMany, 1536, 4, 1, 384, 1, 1},
                             {kMany, 2048, 4, 1, 512, 1, 1},
                             {kMany, 3584, 8, 1, 448, 1, 1},
                             {kMany, 4096, 8, 1, 512, 1, 1},
                             {kMany, 8192, 8, 1, 1024, 1, 1},
                             {kMany, 16384, 8, 1, 128, 1, 16},
                             {kMany, 32768, 8, 1, 256, 1, 16},
                             {kMany, 65536, 8, 1, 512, 1, 16},
                             {16, 1024, 2, 1, 512, 1, 1},
                             {16, 2048, 4, 1, 512, 1, 1},
                             {16, 8, 1, 1, 32, 4, 1}}) {
    const RowPlan plan = PlanReadOnce(e.rows, e.of_row, 1, kH100);
    EXPECT_EQ(plan.form,
              e.vectors < 8 ? RowForm::kRegisters : RowForm::kShared);
    ExpectLike(e, plan);
  }
}

TEST(PlanFormsTest, OfThePipeline) {
  // The last are of weights of few rows.
  for (const Expected& e :
       std::vector<Expected>{{kMany, 8, 1, 2, 256, 32, 1},
                             {kMany, 125, 1, 2, 256, 2, 1},
                             {kMany, 256, 1, 2, 256, 1, 1},
                             {kMany, 512, 2, 1, 256, 1, 1},
                             {kMany, 640, 2, 1, 320, 1, 1},
                             {kMany, 1024, 2, 1, 512, 1, 1},
                             {kMany, 1536, 2, 1, 192, 1, 4},
                             {kMany, 2048, 2, 1, 128, 1, 8},
                             {kMany, 4096, 2, 1, 256, 1, 8},
                             {kMany, 8192, 2, 1, 256, 1, 16},
                             {kMany, 16384, 2, 1, 512, 1, 16},
                             {4, 8, 1, 2, 32, 4, 1},
                             {100, 8, 1, 2, 256, 32, 1}}) {
    const RowPlan plan = Pipeline(e.rows, e.of_row, kH100);
    EXPECT_EQ(plan.form, RowForm::kShared);
    ExpectLike(e, plan);
  }
}

// --- Partial sums ------------------------------------------------------------

TEST(PartialSumsTest, HaveRowsAndNoMoreThanAFewOfAThread) {
  for (const int64_t vectors : {1, 128, 256, 1024, 16384}) {
    for (const int64_t rows : {0, 1, 127, 129, 5000, 1 << 20}) {
      for (const int64_t resident : {1, 3, 132}) {
        RowPlan plan = Pipeline(rows, vectors, kH100);
        const PartialSums s =
            PlanPipelineSums(1, rows, vectors * 8, resident, 1 << 20, &plan);
        EXPECT_LE(s.splits, resident);
        EXPECT_LE(s.steps * plan.rows, kRowsPerPartial);
        EXPECT_GE(s.Count() * s.steps * plan.lanes.rows * plan.rows, rows);
        EXPECT_TRUE(s.splits == 1 || (s.splits - 1) * plan.rows < rows);
      }
    }
  }
}

}  // namespace
}  // namespace xla_ffi_kit::rms_norm_internal
