// Sums over the rows of an array, column by column, as a weight's gradient is:
// how threads share the rows, and the order of the sums, which is always the
// same.
//
// Rows come in groups, each with sums of its own. A first kernel adds up some
// rows at a time and stores each such sum, a slot, in a workspace; a second one
// adds up the slots of each group. No slot has more than a few rows of a thread
// where the workspace has room for that, so that sums of floats do not drift;
// the slots are summed in double.

#ifndef XLA_FFI_CORE_CUDA_ROW_SUMS_H_
#define XLA_FFI_CORE_CUDA_ROW_SUMS_H_

#include <algorithm>
#include <cstdint>

#include "xla_ffi/core/cuda/elementwise.h"
#include "xla_ffi/core/cuda/row_plan.h"
#include "xla_ffi/core/host_device.h"

namespace xla_ffi_kit {

// Rows that a thread adds up, in the type of the slots, before it stores them.
inline constexpr int64_t kRowsPerSlot = 128;

// Fewer rows to a thread are not worth a slot, where more parts could be.
inline constexpr int64_t kMinRowsPerPart = 4;

// Who does what: the rows of a group are dealt out to `parts` in turn, so many
// at each step, and a part stores its sums in `slots_per_part` slots.
struct RowSums {
  int64_t groups = 0;
  int64_t rows = 0;  // of a group
  int64_t parts = 1;
  int64_t slots_per_part = 1;
  int64_t steps_per_slot = 0;
  int64_t count = 0;  // components of a row, and of a slot

  XLA_FFI_KIT_HOST_DEVICE int64_t Slots() const {
    return parts * slots_per_part;
  }
  // The components of all slots.
  XLA_FFI_KIT_HOST_DEVICE int64_t Size() const {
    return groups * Slots() * count;
  }
  // Returns where a slot of a part of a group begins.
  XLA_FFI_KIT_HOST_DEVICE int64_t SlotBegin(int64_t group, int64_t part,
                                            int64_t slot) const {
    return ((group * parts + part) * slots_per_part + slot) * count;
  }
};

// Sums for `parts` parts that take `rows_per_step` rows at a time, each thread
// `rows_of_thread` of them; a group has no more than `slots` >= parts slots.
inline RowSums MakeRowSums(int64_t groups, int64_t rows, int64_t count,
                           int64_t parts, int64_t rows_per_step,
                           int64_t rows_of_thread, int64_t slots) {
  using row_plan_internal::QuotientUp;
  const int64_t steps = QuotientUp(rows, parts * rows_per_step);
  const int64_t wanted = QuotientUp(steps * rows_of_thread, kRowsPerSlot);
  RowSums s = {groups, rows, parts};
  s.count = count;
  s.slots_per_part =
      std::clamp<int64_t>(wanted, 1, std::max<int64_t>(slots / parts, 1));
  s.steps_per_slot = QuotientUp(steps, s.slots_per_part);
  return s;
}

// Rows of any kind: a thread adds up one pack of columns, over all rows of its
// part, in double.
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

// On a device that runs `resident` blocks at a time, for groups that have
// `slots` slots each.
inline ColumnSumsPlan PlanColumnSums(int64_t groups, int64_t rows,
                                     int64_t packs, int64_t count,
                                     int64_t resident, int64_t slots) {
  using row_plan_internal::QuotientUp;
  ColumnSumsPlan plan;
  plan.columns.packs = packs;
  plan.columns.column_blocks = QuotientUp(packs, kColumnThreads);
  const int64_t blocks = groups * plan.columns.column_blocks;
  plan.columns.sums = {groups, rows};
  plan.columns.sums.count = count;
  plan.columns.sums.parts = std::clamp<int64_t>(
      std::min(resident / blocks, slots), 1,
      std::max<int64_t>(QuotientUp(rows, kMinRowsPerPart), 1));
  plan.shape.threads = kColumnThreads;
  plan.shape.blocks = std::min(blocks * plan.columns.sums.parts, kMaxBlocks);
  return plan;
}

// The second kernel: a block adds up a few columns, and its threads share the
// slots. A thread has as many columns as it loads at once.
inline constexpr int kSlotThreads = 32;  // that share the slots of a column
inline constexpr int kSlotColumns = 8;   // threads with columns of their own

inline LaunchShape PlanSlotSums(int64_t groups, int64_t count,
                                int columns_of_thread) {
  const int64_t of_block = int64_t{kSlotColumns} * columns_of_thread;
  return {std::min(groups * row_plan_internal::QuotientUp(count, of_block),
                   kMaxBlocks),
          kSlotThreads * kSlotColumns};
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
