// Kernels that stay for a whole launch, go over many rows of whole packs, and
// add them up column by column: how many threads share a row, and how many
// blocks there are. Row sums themselves are those of row_sums.h.

#ifndef XLA_FFI_CORE_CUDA_RING_PLAN_H_
#define XLA_FFI_CORE_CUDA_RING_PLAN_H_

#include <algorithm>
#include <cstdint>

#include "xla_ffi/core/cuda/elementwise.h"
#include "xla_ffi/core/cuda/pack.h"
#include "xla_ffi/core/cuda/row_plan.h"
#include "xla_ffi/core/cuda/row_sums.h"

namespace xla_ffi_kit {

// At a time, a thread has one pack of each of two short rows, or one of a
// longer row, or two of a row that a cluster shares. A block has no more
// threads than that, ...
inline constexpr int MaxRingThreads(int packs, int rows) {
  return packs * rows == 1 ? 1024 : (rows == 2 ? 256 : 512);
}
// ... and a thread no more registers than leave a processor 1024 threads, or
// three of the blocks of 256 that clusters have.
inline constexpr int MaxRingRegisters(int packs) {
  return packs == 1 ? 64 : 80;
}

// One stage holds the data in use, the other one receives the next.
inline constexpr int kRingStages = 2;

// A step on fewer rows than this is not worth a slot of its own, where more
// blocks could share the rows.
inline constexpr int64_t kMinStepsPerPart = 2;

struct RingPlan {
  bool fits = false;
  int packs = 1, rows = 1;  // of a thread, at a time
  RowLanes lanes;
  LaunchShape shape;

  // The rows of a step of a unit, which is a block or a cluster.
  int64_t RowsPerStep() const { return int64_t{lanes.rows} * rows; }
};

// Plans a ring for groups of `rows` rows of `packs` >= 1 packs of `arrays`;
// `sum_bytes` is the size of a pack's sums.
inline RingPlan PlanRing(int64_t rows, int64_t packs, int arrays,
                         int64_t sum_bytes, const BlockLimits& limits) {
  RingPlan plan;
  if (packs <= 128) {
    plan.rows = 2;
    plan.lanes.lane_bits = 0;
    while ((1 << plan.lanes.lane_bits) < packs) ++plan.lanes.lane_bits;
    const int lanes = 1 << plan.lanes.lane_bits;
    plan.shape.threads = MaxRingThreads(1, 2);
    // No more rows to a step than a group has.
    while (plan.shape.threads > std::max(lanes, 32) &&
           2 * (plan.shape.threads / lanes) > rows) {
      plan.shape.threads /= 2;
    }
    plan.lanes.rows = plan.shape.threads / lanes;
  } else if (packs <= MaxRingThreads(1, 1)) {
    plan.rows = packs <= MaxRingThreads(1, 2) ? 2 : 1;
    plan.shape.threads = row_plan_internal::WholeWarps(packs);
  } else {
    plan.packs = 2;
    const auto threads = [&](int cluster_bits) {
      return row_plan_internal::WholeWarps(row_plan_internal::QuotientUp(
          packs, int64_t{plan.packs} << cluster_bits));
    };
    // Eight blocks, of 128 to 256 threads if these are enough.
    int bits = 1;
    while (bits < 3 && threads(bits + 1) >= 128) ++bits;
    while ((1 << bits) < kLargestCluster && threads(bits) > 256) ++bits;
    while ((1 << bits) > limits.cluster && bits > 0) --bits;
    if (bits == 0 || threads(bits) > MaxRingThreads(2, 1)) return plan;
    plan.lanes.cluster_bits = bits;
    plan.shape.threads = threads(bits);
    plan.shape.cluster = 1 << bits;
  }
  const int of_stage = plan.packs * plan.rows * arrays;
  const int of_weight = plan.packs > 1 ? plan.packs : 0;
  plan.shape.shared_bytes = int64_t{plan.shape.threads} * kPackBytes *
                            (kRingStages * of_stage + of_weight);
  if (plan.lanes.rows > 1) {
    plan.shape.shared_bytes += plan.lanes.rows * packs * sum_bytes;
  }
  plan.fits = plan.shape.shared_bytes <= limits.shared_bytes;
  return plan;
}

// Who adds up what, on a device that runs `resident` units at a time, for
// groups that have `slots` slots each; both are at least 1. Completes the plan.
inline RowSums PlanRingSums(int64_t groups, int64_t rows, int64_t count,
                            int64_t resident, int64_t slots, RingPlan* plan) {
  const int64_t most = row_plan_internal::QuotientUp(
      rows, plan->RowsPerStep() * kMinStepsPerPart);
  const int64_t parts = std::clamp<int64_t>(std::min(resident / groups, slots),
                                            1, std::max<int64_t>(most, 1));
  plan->shape.blocks = groups * parts * plan->shape.cluster;
  plan->fits = plan->fits && plan->shape.blocks <= kMaxBlocks &&
               groups * rows <= kMaxRows;
  return MakeRowSums(groups, rows, count, parts, plan->RowsPerStep(),
                     plan->rows, slots);
}

}  // namespace xla_ffi_kit

#endif  // XLA_FFI_CORE_CUDA_RING_PLAN_H_
