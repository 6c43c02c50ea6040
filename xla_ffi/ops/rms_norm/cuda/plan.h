// Launches: how many threads share a row, where they keep it while they reduce
// it, how many blocks there are; and how these share the rows of a weight.
//
// The numbers are those of the fastest kernels on an H100: short rows stay in
// registers, because nothing is faster; longer ones in shared memory, where the
// copies of all threads are on their way at once; a cluster of blocks, whose
// barrier costs some percent, shares a row only where no block can hold it.

#ifndef XLA_FFI_OPS_RMS_NORM_CUDA_PLAN_H_
#define XLA_FFI_OPS_RMS_NORM_CUDA_PLAN_H_

#include <algorithm>
#include <cstdint>

#include "xla_ffi/core/cuda/elementwise.h"
#include "xla_ffi/core/cuda/launch.h"
#include "xla_ffi/core/cuda/pack.h"
#include "xla_ffi/core/host_device.h"

namespace xla_ffi_kit::rms_norm_internal {

// In registers, a row has at most this many threads, and a thread this many
// vectors of all arrays together: with more, too few threads fit a processor.
inline constexpr int kMaxRegisterThreads = 512;
inline constexpr int kMaxRegisterVectors = 4;

// In shared memory, each thread has this many vectors of every array.
inline constexpr int kSharedVectors = 8;
inline constexpr int kMaxSharedThreads = 1024;

// Kernels take the number of a row for 31 bits, and look some steps ahead.
inline constexpr int64_t kMaxRows = int64_t{1} << 30;

// Fewer blocks than this leave processors of a large GPU idle.
inline constexpr int64_t kEnoughBlocks = 256;

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
  // The distance between a thread's vectors, in a block.
  XLA_FFI_KIT_HOST_DEVICE int Step(int threads) const {
    return lane_bits < 31 ? 1 << lane_bits : threads;
  }
  XLA_FFI_KIT_HOST_DEVICE int64_t Row(unsigned block, int thread) const {
    return static_cast<int64_t>(block >> cluster_bits) * rows +
           (thread >> lane_bits);
  }
};

enum class RowForm {
  kReadTwice,  // the second time from a cache, unless the row is long
  kRegisters,
  kShared,  // of one block or of a cluster
};

struct RowPlan {
  RowForm form = RowForm::kReadTwice;
  int vectors = 1, rows = 1;  // of a thread, at a time
  RowLanes lanes;
  LaunchShape shape;
};

inline int64_t QuotientUp(int64_t a, int64_t b) { return (a + b - 1) / b; }

inline int WholeWarps(int64_t threads) {
  return static_cast<int>(QuotientUp(threads, 32) * 32);
}

// The least power of two of lanes for `vectors` vectors, as its exponent.
inline int LaneBits(int64_t vectors) {
  int bits = 0;
  while (int64_t{1} << bits < vectors) ++bits;
  return bits;
}

// Divides rows among blocks of `threads` threads, or of fewer, but whole warps,
// where that would be less than so many blocks.
inline void DivideRows(int64_t rows, int threads, int64_t least_blocks,
                       RowPlan* plan) {
  const int lanes = 1 << plan->lanes.lane_bits;
  while (threads > std::max(lanes, 32) &&
         rows / (threads / lanes) < least_blocks) {
    threads /= 2;
  }
  plan->shape.threads = threads;
  plan->lanes.rows = threads / lanes;
}

// Plans a kernel for `rows` >= 1 rows of `vectors` >= 1 vectors of any kind,
// which it reads twice.
inline RowPlan PlanReadTwice(int64_t rows, int64_t vectors) {
  constexpr int64_t kMaxLanes = 1024;
  RowPlan plan;
  // Neighboring threads should read 128 bytes in a row, so up to 8 threads
  // before one takes a second vector, and then up to four vectors each.
  const int64_t lanes =
      std::max((vectors - 1) / 4 + 1, std::min<int64_t>(vectors, 8));
  plan.lanes.lane_bits = LaneBits(std::min(lanes, kMaxLanes));
  DivideRows(rows, std::max(1 << plan.lanes.lane_bits, 256), kEnoughBlocks,
             &plan);
  plan.shape.blocks = std::min(QuotientUp(rows, plan.lanes.rows), kMaxBlocks);
  return plan;
}

inline RowPlan PlanRegisters(int64_t rows, int64_t vectors, int most_vectors) {
  RowPlan plan;
  plan.form = RowForm::kRegisters;
  if (vectors <= 32 * most_vectors) {
    // One warp or less: nobody waits for a barrier.
    while (32 * plan.vectors < vectors) plan.vectors *= 2;
    plan.lanes.lane_bits = LaneBits(QuotientUp(vectors, plan.vectors));
    DivideRows(rows, 256, kEnoughBlocks, &plan);
  } else {
    plan.vectors = vectors <= 512 ? 2 : most_vectors;
    // Few rows are over sooner with more threads each.
    const int64_t twice = QuotientUp(vectors, plan.vectors / 2);
    if (rows < kEnoughBlocks && twice <= kMaxRegisterThreads) plan.vectors /= 2;
    plan.shape.threads = WholeWarps(QuotientUp(vectors, plan.vectors));
  }
  plan.shape.blocks = QuotientUp(rows, plan.lanes.rows);
  return plan;
}

inline RowPlan PlanShared(int64_t rows, int64_t vectors, int arrays,
                          const BlockLimits& limits) {
  const auto of_cluster = [&](int cluster_bits) {
    RowPlan plan;
    const int64_t of_block = QuotientUp(vectors, int64_t{1} << cluster_bits);
    const int64_t threads = QuotientUp(of_block, kSharedVectors);
    if (threads > kMaxSharedThreads) return plan;
    plan.shape.threads = WholeWarps(threads);
    plan.shape.shared_bytes =
        int64_t{plan.shape.threads} * kSharedVectors * arrays * kPackBytes;
    if (plan.shape.shared_bytes > limits.shared_bytes) return plan;
    plan.form = RowForm::kShared;
    plan.vectors = kSharedVectors;
    plan.lanes.cluster_bits = cluster_bits;
    plan.shape.cluster = 1 << cluster_bits;
    plan.shape.blocks = rows * plan.shape.cluster;
    return plan;
  };
  const RowPlan plan = of_cluster(0);
  if (plan.form == RowForm::kShared || limits.cluster == 1) return plan;
  // The largest whose blocks have 128 threads, or more where they have to.
  constexpr int64_t kMinVectors = 128 * kSharedVectors;
  int cluster_bits = 1;
  while ((2 << cluster_bits) <= limits.cluster &&
         vectors >> (cluster_bits + 1) >= kMinVectors) {
    ++cluster_bits;
  }
  return of_cluster(cluster_bits);
}

// Plans a kernel that keeps `rows` >= 1 rows of `vectors` >= 1 whole vectors of
// one or two `arrays`, and so reads them once. The form says if there is none.
inline RowPlan PlanReadOnce(int64_t rows, int64_t vectors, int arrays,
                            const BlockLimits& limits) {
  const int most_vectors = kMaxRegisterVectors / arrays;
  const RowPlan plan = vectors <= int64_t{most_vectors} * kMaxRegisterThreads
                           ? PlanRegisters(rows, vectors, most_vectors)
                           : PlanShared(rows, vectors, arrays, limits);
  // A kernel has no loop over rows, and may divide their numbers by others.
  if (plan.shape.blocks > kMaxBlocks || rows > kMaxRows) return {};
  return plan;
}

// --- The gradient of a weight ------------------------------------------------
//
// A first kernel adds up some of the rows of a weight at a time and stores each
// such partial sum in a workspace; a second one adds up the partial sums of
// each weight, always in the same order. None has more than a few rows of a
// thread where the workspace has room for that, so that sums of floats do not
// drift; the second kernel adds in double.

// Who does what: the rows of a weight are dealt out to `splits` in turn, so
// many at each step, and a split stores its sums in `partials` partial sums.
struct PartialSums {
  int64_t weights = 0;
  int64_t rows = 0;  // of a weight
  int64_t n = 0;     // elements of a row, and of a partial sum
  int64_t splits = 1;
  int64_t partials = 1;        // of a split
  int64_t steps = 0;           // of a partial sum
  int64_t rows_of_thread = 1;  // at a step

  // The partial sums of a weight.
  XLA_FFI_KIT_HOST_DEVICE int64_t Count() const { return splits * partials; }
  // Returns where a partial sum of a split of a weight begins.
  XLA_FFI_KIT_HOST_DEVICE int64_t Begin(int64_t weight, int64_t split,
                                        int64_t partial) const {
    return ((weight * splits + split) * partials + partial) * n;
  }
};

// Rows that a thread adds up, in the type of the workspace, before it stores
// their sum.
inline constexpr int64_t kRowsPerPartial = 128;

// Divides `sums.splits` splits of `rows_per_step` rows further; a weight has
// room for `most` >= sums.splits partial sums.
inline PartialSums DividedFurther(PartialSums sums, int64_t rows_per_step,
                                  int64_t most) {
  const int64_t steps = QuotientUp(sums.rows, sums.splits * rows_per_step);
  const int64_t partials =
      QuotientUp(steps * sums.rows_of_thread, kRowsPerPartial);
  sums.partials = std::clamp<int64_t>(partials, 1,
                                      std::max<int64_t>(most / sums.splits, 1));
  sums.steps = QuotientUp(steps, sums.partials);
  return sums;
}

// The number of splits: one for each of the `units` that the device runs at a
// time, but no more than the workspace has room for (`most`), and none of fewer
// than `least` rows.
inline int64_t SplitsFor(int64_t rows, int64_t units, int64_t most,
                         int64_t least) {
  return std::clamp<int64_t>(std::min(units, most), 1,
                             std::max<int64_t>(QuotientUp(rows, least), 1));
}

// --- A pipeline --------------------------------------------------------------
//
// Rows of whole vectors, read once: blocks, or clusters, that stay for a whole
// launch and go over many rows.

// At a time, a thread has one vector of each of two short rows, or two vectors
// of a long one, which a cluster shares if a block of so many threads cannot.
inline constexpr int PipelineVectors(int rows) { return rows == 2 ? 1 : 2; }
inline constexpr int MaxPipelineThreads(int rows) {
  return rows == 2 ? 256 : 512;
}
// The registers of a thread leave a processor four blocks of 256 threads for
// short rows, one of 512 for long ones, and three of 256 for clusters.
inline constexpr int MaxPipelineRegisters(int rows, bool has_clusters) {
  return rows == 2 ? 64 : (has_clusters ? 80 : 128);
}

// A ring of stages: one holds the data in use, the others receive the next.
// Blocks with long rows have enough on its way in one.
inline constexpr int PipelineStages(int rows) { return rows == 2 ? 3 : 2; }

// Plans a pipeline for weights of `rows` rows of `vectors` >= 1 vectors of
// `arrays`; `sum_bytes` is the size of a vector's sums. The form says if there
// is none.
inline RowPlan PlanPipeline(int64_t rows, int64_t vectors, int arrays,
                            int64_t sum_bytes, const BlockLimits& limits) {
  RowPlan plan;
  plan.rows = vectors <= MaxPipelineThreads(2) ? 2 : 1;
  plan.vectors = PipelineVectors(plan.rows);
  if (vectors <= 128) {
    plan.lanes.lane_bits = LaneBits(vectors);
    // No more rows to a step, two of a thread, than a weight has.
    DivideRows(rows, MaxPipelineThreads(2), 2, &plan);
  } else if (vectors <= int64_t{plan.vectors} * MaxPipelineThreads(plan.rows)) {
    plan.shape.threads = WholeWarps(QuotientUp(vectors, plan.vectors));
  } else {
    const auto threads = [&](int cluster_bits) {
      return WholeWarps(
          QuotientUp(vectors, int64_t{plan.vectors} << cluster_bits));
    };
    // Eight blocks, of 128 to 256 threads if these are enough.
    int bits = 1;
    while (bits < 3 && threads(bits + 1) >= 128) ++bits;
    while ((1 << bits) < kLargestCluster && threads(bits) > 256) ++bits;
    while ((1 << bits) > limits.cluster && bits > 0) --bits;
    if (bits == 0 || threads(bits) > MaxPipelineThreads(1)) return plan;
    plan.lanes.cluster_bits = bits;
    plan.shape.threads = threads(bits);
    plan.shape.cluster = 1 << bits;
  }
  const int of_stage = plan.vectors * plan.rows * arrays;
  const int of_weight = plan.shape.cluster > 1 ? plan.vectors : 0;
  plan.shape.shared_bytes = int64_t{plan.shape.threads} * kPackBytes *
                            (PipelineStages(plan.rows) * of_stage + of_weight);
  if (plan.lanes.rows > 1) {
    plan.shape.shared_bytes += plan.lanes.rows * vectors * sum_bytes;
  }
  if (plan.shape.shared_bytes <= limits.shared_bytes) {
    plan.form = RowForm::kShared;
  }
  return plan;
}

// Who adds up what, on a device that runs `resident` blocks or clusters at a
// time, where a weight has room for `most` partial sums; both are at least 1.
// Completes the plan.
inline PartialSums PlanPipelineSums(int64_t weights, int64_t rows, int64_t n,
                                    int64_t resident, int64_t most,
                                    RowPlan* plan) {
  // Fewer steps are not worth a partial sum, where more blocks could share the
  // rows.
  constexpr int64_t kMinSteps = 2;
  const int64_t rows_per_step = int64_t{plan->lanes.rows} * plan->rows;
  PartialSums sums = {weights, rows, n};
  sums.splits =
      SplitsFor(rows, resident / weights, most, rows_per_step * kMinSteps);
  sums.rows_of_thread = plan->rows;
  plan->shape.blocks = weights * sums.splits * plan->shape.cluster;
  if (plan->shape.blocks > kMaxBlocks || weights * rows > kMaxRows) {
    plan->form = RowForm::kReadTwice;
  }
  return DividedFurther(sums, rows_per_step, most);
}

// --- Columns -----------------------------------------------------------------
//
// Rows of any kind: a thread adds up one vector of columns, over all rows of
// its split, in double.

inline constexpr int kColumnThreads = 256;

struct ColumnPlan {
  PartialSums sums;  // one of each split
  int64_t column_blocks = 0;
  LaunchShape shape;
};

inline ColumnPlan PlanColumns(int64_t weights, int64_t rows, int64_t n,
                              int64_t vectors, int64_t resident, int64_t most) {
  constexpr int64_t kMinRows = 4;  // of a thread, to be worth a split
  ColumnPlan plan;
  plan.column_blocks = QuotientUp(vectors, kColumnThreads);
  const int64_t blocks = weights * plan.column_blocks;
  plan.sums = {weights, rows, n};
  plan.sums.splits = SplitsFor(rows, resident / blocks, most, kMinRows);
  plan.shape.threads = kColumnThreads;
  plan.shape.blocks = std::min(blocks * plan.sums.splits, kMaxBlocks);
  return plan;
}

// --- The second kernel -------------------------------------------------------
//
// A block adds up a few columns, and its threads share the partial sums. A
// thread has as many columns as it loads at once.

inline constexpr int kThreadsOfColumn = 32;
inline constexpr int kColumnsOfBlock = 8;  // threads with columns of their own

inline LaunchShape PlanTotals(int64_t weights, int64_t n, int width) {
  const int64_t of_block = int64_t{kColumnsOfBlock} * width;
  return {std::min(weights * QuotientUp(n, of_block), kMaxBlocks),
          kThreadsOfColumn * kColumnsOfBlock};
}

}  // namespace xla_ffi_kit::rms_norm_internal

#endif  // XLA_FFI_OPS_RMS_NORM_CUDA_PLAN_H_
