// Rows of whole packs: how many threads share a row, and where they keep it
// while they reduce it. A row is read from memory once.
//
// The numbers are those of the fastest kernels on an H100: short rows stay in
// registers, because nothing is faster; longer ones in shared memory, where the
// copies of all threads are on their way at once; a cluster of blocks, whose
// barrier costs some percent, shares a row only where no block can hold it.

#ifndef XLA_FFI_CORE_CUDA_ROW_PLAN_H_
#define XLA_FFI_CORE_CUDA_ROW_PLAN_H_

#include <algorithm>
#include <cstdint>

#include "xla_ffi/core/cuda/elementwise.h"
#include "xla_ffi/core/cuda/pack.h"
#include "xla_ffi/core/host_device.h"

namespace xla_ffi_kit {

// In registers, a row has at most this many threads, and a thread this many
// packs of all arrays together: with more, too few threads fit a processor.
inline constexpr int kMaxRegisterThreads = 512;
inline constexpr int kMaxRegisterPacks = 4;

// In shared memory, each thread has this many packs of every array.
inline constexpr int kSharedPacks = 8;
inline constexpr int kMaxSharedThreads = 1024;

// The largest cluster there is; beyond 8 blocks a kernel has to ask for it.
inline constexpr int kLargestCluster = 16;

// Kernels take the number of a row for 31 bits, and look some steps ahead.
inline constexpr int64_t kMaxRows = int64_t{1} << 30;

// The resources that a device offers to a kernel.
struct BlockLimits {
  int64_t shared_bytes = 0;  // of a block
  int cluster = 1;           // blocks of the largest one: a power of two
  bool is_hopper = false;    // 9.0 or newer: kernels may begin early
};

enum class RowForm {
  kRegisters,
  kShared,  // of one block or of a cluster
  kNone,    // the row is too long, or there are too many rows
};

// Where a thread of a kernel works. A power of two of lanes shares a row, and a
// block may have several rows; or all threads of a block or cluster share one.
struct RowLanes {
  int lane_bits = 31;  // a thread's lane is the last bits of its number ...
  int rows = 1;        // ... and the others are its row of so many in a block
  int cluster_bits = 0;

  XLA_FFI_KIT_HOST_DEVICE int Lane(int thread) const {
    return static_cast<int>(static_cast<unsigned>(thread) &
                            ((1U << lane_bits) - 1));
  }
  // The distance between a thread's packs, in a block.
  XLA_FFI_KIT_HOST_DEVICE int Step(int threads) const {
    return lane_bits < 31 ? 1 << lane_bits : threads;
  }
  XLA_FFI_KIT_HOST_DEVICE int64_t Row(unsigned block, int thread) const {
    return static_cast<int64_t>(block >> cluster_bits) * rows +
           (thread >> lane_bits);
  }
};

struct WholePackPlan {
  RowForm form = RowForm::kNone;
  int packs_per_thread = 1;
  RowLanes lanes;
  LaunchShape shape;
};

namespace row_plan_internal {

inline int WholeWarps(int64_t threads) {
  return static_cast<int>((threads + 31) / 32 * 32);
}

inline int64_t QuotientUp(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Fewer blocks than this leave processors of a large GPU idle.
inline constexpr int64_t kEnoughBlocks = 256;

inline WholePackPlan PlanRegisters(int64_t rows, int64_t packs,
                                   int most_packs) {
  WholePackPlan plan;
  plan.form = RowForm::kRegisters;
  if (packs <= 32 * most_packs) {
    // One warp or less: nobody waits for a barrier.
    while (32 * plan.packs_per_thread < packs) plan.packs_per_thread *= 2;
    plan.lanes.lane_bits = 0;
    while ((int64_t{plan.packs_per_thread} << plan.lanes.lane_bits) < packs) {
      ++plan.lanes.lane_bits;
    }
    plan.shape.threads = 256;
    while (plan.shape.threads > 32 &&
           rows <
               kEnoughBlocks * (plan.shape.threads >> plan.lanes.lane_bits)) {
      plan.shape.threads /= 2;
    }
    plan.lanes.rows = plan.shape.threads >> plan.lanes.lane_bits;
  } else {
    plan.packs_per_thread = packs <= 512 ? 2 : most_packs;
    // Few rows are over sooner with more threads each.
    const int64_t half = packs * 2 / plan.packs_per_thread;
    if (rows < kEnoughBlocks && half <= kMaxRegisterThreads) {
      plan.packs_per_thread /= 2;
    }
    plan.shape.threads = WholeWarps(QuotientUp(packs, plan.packs_per_thread));
  }
  plan.shape.blocks = QuotientUp(rows, plan.lanes.rows);
  return plan;
}

inline WholePackPlan PlanShared(int64_t rows, int64_t packs, int64_t pack_bytes,
                                const BlockLimits& limits) {
  const auto of_cluster = [&](int cluster_bits) {
    WholePackPlan plan;
    const int64_t of_block = QuotientUp(packs, int64_t{1} << cluster_bits);
    const int64_t threads = QuotientUp(of_block, kSharedPacks);
    if (threads > kMaxSharedThreads) return plan;
    plan.shape.threads = WholeWarps(threads);
    plan.shape.shared_bytes = plan.shape.threads * kSharedPacks * pack_bytes;
    if (plan.shape.shared_bytes > limits.shared_bytes) return plan;
    plan.form = RowForm::kShared;
    plan.packs_per_thread = kSharedPacks;
    plan.lanes.cluster_bits = cluster_bits;
    plan.shape.cluster = 1 << cluster_bits;
    plan.shape.blocks = rows * plan.shape.cluster;
    return plan;
  };
  WholePackPlan plan = of_cluster(0);
  if (plan.form != RowForm::kNone || limits.cluster == 1) return plan;
  // The largest whose blocks have 128 threads, or more where they have to.
  constexpr int64_t kMinPacks = 128 * kSharedPacks;
  int cluster_bits = 1;
  while ((2 << cluster_bits) <= limits.cluster &&
         packs >> (cluster_bits + 1) >= kMinPacks) {
    ++cluster_bits;
  }
  return of_cluster(cluster_bits);
}

}  // namespace row_plan_internal

// Plans a kernel that keeps `rows` >= 1 rows of `packs` >= 1 packs of one or
// two `arrays`.
inline WholePackPlan PlanWholePacks(int64_t rows, int64_t packs, int arrays,
                                    const BlockLimits& limits) {
  const int most_packs = kMaxRegisterPacks / arrays;
  WholePackPlan plan =
      packs <= int64_t{most_packs} * kMaxRegisterThreads
          ? row_plan_internal::PlanRegisters(rows, packs, most_packs)
          : row_plan_internal::PlanShared(rows, packs, arrays * kPackBytes,
                                          limits);
  // A kernel has no loop over rows, and may divide their numbers by others.
  if (plan.shape.blocks > kMaxBlocks || rows > kMaxRows) return {};
  return plan;
}

}  // namespace xla_ffi_kit

#endif  // XLA_FFI_CORE_CUDA_ROW_PLAN_H_
