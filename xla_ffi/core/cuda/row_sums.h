// Sums over the rows of an array, column by column, as a weight's gradient is:
// how threads share the rows, and the order of the sums, which is always the
// same.
//
// Rows come in groups, each with sums of its own. A first kernel adds up some
// rows at a time and stores each such sum, a slot, in scratch memory; a second
// one adds up the slots of each group. No slot has more than a few rows of a
// thread, so that sums of floats do not drift; the slots are summed in double.

#ifndef XLA_FFI_CORE_CUDA_ROW_SUMS_H_
#define XLA_FFI_CORE_CUDA_ROW_SUMS_H_

#include <algorithm>
#include <cstdint>

#include "xla_ffi/core/cuda/elementwise.h"
#include "xla_ffi/core/cuda/rows.h"
#include "xla_ffi/core/host_device.h"

namespace xla_ffi_kit {

// Rows that a thread adds up, in the type of the slots, before it stores them.
inline constexpr int kRowsPerSlot = 64;

// Fewer rows to a thread are not worth a slot, where more parts could be.
inline constexpr int64_t kMinRowsPerPart = 4;

// Who does what: the rows of a group are dealt out to `parts` in turn, and a
// part stores its sums in `slots_per_part` slots.
struct RowSums {
  int64_t groups = 0;
  int64_t rows = 0;  // of a group
  int64_t parts = 1;
  int64_t slots_per_part = 1;
  int64_t count = 0;  // components of a row, and of a slot
  int lanes = 1;      // threads that share a row

  XLA_FFI_KIT_HOST_DEVICE int64_t Slots() const {
    return parts * slots_per_part;
  }
  // The components of all slots.
  XLA_FFI_KIT_HOST_DEVICE int64_t Size() const {
    return groups * Slots() * count;
  }
  // Where a slot of a part, of a group, begins.
  XLA_FFI_KIT_HOST_DEVICE int64_t SlotBegin(int64_t group, int64_t part,
                                            int64_t slot) const {
    return ((group * parts + part) * slots_per_part + slot) * count;
  }
};

struct RowSumsPlan {
  RowSums sums;
  LaunchShape shape;
};

// Lanes and threads for groups of `rows` rows of `packs` packs that fit into
// registers: a pack of a row belongs to the same thread in every row.
inline RowPlan PlanRowsOfGroups(int64_t groups, int64_t rows, int64_t packs) {
  RowPlan plan = PlanRows(std::max<int64_t>(groups * rows, 1), packs, 0, {});
  // No more rows to a block than a group has.
  while (plan.shape.threads > std::max(plan.threads_per_row, 32) &&
         plan.RowsPerBlock() > rows) {
    plan.shape.threads /= 2;
  }
  return plan;
}

// Completes a plan of lanes and threads for a device that runs `resident`
// blocks at a time. `sum_bytes`: of a component of a slot. groups >= 1.
inline RowSumsPlan PlanRowSums(const RowPlan& rows_plan, int64_t groups,
                               int64_t rows, int64_t count, int64_t sum_bytes,
                               int64_t resident) {
  const int64_t in_block = rows_plan.RowsPerBlock();
  const auto blocks_for = [](int64_t items, int64_t of_block) {
    return std::max<int64_t>((items + of_block - 1) / of_block, 1);
  };
  RowSumsPlan plan;
  plan.sums = {groups, rows, 1, 1, count, rows_plan.threads_per_row};
  plan.sums.parts = std::clamp<int64_t>(
      resident / groups, 1, blocks_for(rows, in_block * kMinRowsPerPart));
  plan.sums.slots_per_part =
      blocks_for(rows, plan.sums.parts * in_block * kRowsPerSlot);
  plan.shape = rows_plan.shape;
  plan.shape.blocks = std::min(groups * plan.sums.parts, kMaxBlocks);
  plan.shape.shared_bytes = in_block > 1 ? in_block * count * sum_bytes : 0;
  return plan;
}

// Rows too long for registers: a thread adds up one pack of columns, over all
// rows of its part, in double.
struct ColumnSums {
  RowSums sums;  // one slot per part
  int64_t packs = 0;
  int64_t column_blocks = 0;
};

inline constexpr int kColumnThreads = 256;

struct ColumnSumsPlan {
  ColumnSums columns;
  LaunchShape shape;
};

inline ColumnSumsPlan PlanColumnSums(int64_t groups, int64_t rows,
                                     int64_t packs, int64_t count,
                                     int64_t resident) {
  ColumnSumsPlan plan;
  plan.columns.packs = packs;
  plan.columns.column_blocks = (packs - 1) / kColumnThreads + 1;
  plan.columns.sums = {groups, rows, 1, 1, count, 1};
  const int64_t blocks = groups * plan.columns.column_blocks;
  plan.columns.sums.parts = std::clamp<int64_t>(
      resident / blocks, 1,
      std::max<int64_t>((rows + kMinRowsPerPart - 1) / kMinRowsPerPart, 1));
  plan.shape.threads = kColumnThreads;
  plan.shape.blocks = std::min(blocks * plan.columns.sums.parts, kMaxBlocks);
  return plan;
}

// The second kernel: a block adds up 32 columns, one to a lane; its warps share
// the slots.
inline constexpr int kSlotWarps = 8;

inline LaunchShape PlanSlotSums(int64_t groups, int64_t count) {
  return {std::min(groups * ((count - 1) / 32 + 1), kMaxBlocks),
          32 * kSlotWarps};
}

// A warp's part of a column of a group: its slots warp, warp + kSlotWarps, ...
template <typename A>
XLA_FFI_KIT_HOST_DEVICE inline double SlotSum(const A* sums, const RowSums& s,
                                              int64_t group, int64_t column,
                                              int warp) {
  const A* in = sums + s.SlotBegin(group, 0, 0) + column;
  double sum = 0;
  XLA_FFI_KIT_UNROLL(4)
  for (int64_t slot = warp; slot < s.Slots(); slot += kSlotWarps) {
    sum += static_cast<double>(in[slot * s.count]);
  }
  return sum;
}

// One component of the slot of a block whose `rows` rows each have sums of
// their own.
template <typename A>
XLA_FFI_KIT_HOST_DEVICE inline A SumOfRows(const A* shared, int rows,
                                           int64_t count, int64_t column) {
  double sum = 0;
  for (int row = 0; row < rows; ++row) {
    sum += static_cast<double>(shared[row * count + column]);
  }
  return static_cast<A>(sum);
}

}  // namespace xla_ffi_kit

#endif  // XLA_FFI_CORE_CUDA_ROW_SUMS_H_
