// RMS normalization on several threads: which thread does which part.
//
// Results do not depend on scheduling; those of shared rows and of dweight may
// depend, in the last digit, on the number of threads. Without memory for the
// sums of several threads, rows are not shared, and each thread owns columns of
// dweight, which takes longer.

#ifndef XLA_FFI_OPS_RMS_NORM_RMS_NORM_PARALLEL_H_
#define XLA_FFI_OPS_RMS_NORM_RMS_NORM_PARALLEL_H_

#include <algorithm>
#include <cstdint>

#include "xla_ffi/core/dtypes.h"
#include "xla_ffi/core/executor.h"
#include "xla_ffi/core/host_scratch.h"
#include "xla_ffi/core/lines.h"
#include "xla_ffi/core/parallel_for.h"
#include "xla_ffi/ops/rms_norm/rms_norm.h"

namespace xla_ffi_kit {
namespace rms_norm_internal {

// The nanoseconds that one thread takes for an element of each of `arrays`
// arrays of T: so many that the least part that ParallelFor() gives to a thread
// takes kThreadNs, for which a thread is worth waking.
template <typename T>
constexpr double ElementNs(int arrays) {
  return kThreadNs / (kParallelForMinBytes / 2) * sizeof(T) * arrays;
}

// A row that threads share, in blocks: its sums are those of the blocks, so
// that the number of threads does not change them. There are few enough blocks
// that their sums are small, and enough to divide the work.
struct Blocks {
  explicit Blocks(int64_t n)
      : row_length(n),
        length(std::max(int64_t{1} << 16, n / 2048)),
        count((n + length - 1) / length) {}

  int64_t Begin(int64_t block) const {
    return std::min(block * length, row_length);
  }

  int64_t row_length, length, count;
};

// Works on all rows, whichever way is faster: each thread on whole rows, by
// whole(begin, end); or all threads on one row after the other. They then add
// up the Sums of reduce(row, begin, end) over the parts of the row, make
// finish(row, total) of the total, and pass that to apply(row, begin, end,
// finished) for each part.
template <typename T, typename Sums, typename Whole, typename Reduce,
          typename Finish, typename Apply>
void ForEachRow(const Executor& executor, int64_t rows, int64_t n, int arrays,
                const Whole& whole, const Reduce& reduce, const Finish& finish,
                const Apply& apply) {
  const double element_ns = ElementNs<T>(arrays);
  LineWork work = {rows, n, element_ns, /*shared_ns=*/element_ns};
  const Blocks blocks(n);
  if (blocks.count == 1) work.shared_ns = 0;
  LinePlan plan = PlanLines(executor, work);
  const auto sums =
      plan.is_shared ? HostScratch<Sums>(blocks.count) : HostScratch<Sums>();
  if (plan.is_shared && sums.get() == nullptr) {
    work.shared_ns = 0;
    plan = PlanLines(executor, work);
  }
  ForEachLine(executor, rows, plan, whole, [&](int64_t row) {
    decltype(finish(row, Sums())) finished = {};
    ReduceThenApply(
        executor, blocks.count, std::min(plan.parts, blocks.count),
        [&](int64_t, int64_t first, int64_t last) noexcept {
          for (int64_t block = first; block < last; ++block) {
            sums.get()[block] =
                reduce(row, blocks.Begin(block), blocks.Begin(block + 1));
          }
        },
        [&] {
          Sums total = {};
          for (int64_t i = 0; i < blocks.count; ++i) total += sums.get()[i];
          finished = finish(row, total);
        },
        [&](int64_t, int64_t first, int64_t last) noexcept {
          apply(row, blocks.Begin(first), blocks.Begin(last), finished);
        });
  });
}

// dx of all rows.
template <typename T>
void ParallelDx(const Executor& executor, const RmsNormBackwardArgs<T>& args) {
  using Sums = RmsNormBackwardSums;
  ForEachRow<T, Sums>(
      executor, args.rows, args.n, /*arrays=*/3,
      [&](int64_t begin, int64_t end) noexcept {
        RmsNormBackward(args, begin, end);
      },
      [&](int64_t row, int64_t begin, int64_t end) {
        return RmsNormBackwardReduce(args, row, begin, end);
      },
      [](int64_t, const Sums& total) { return total; },
      [&](int64_t row, int64_t begin, int64_t end, const Sums& total) {
        RmsNormBackwardApply(args, row, begin, end, total);
      });
}

// Rounds sums in double to n elements of T.
template <typename T>
void Round(const double* sums, int64_t n, T* out) {
  for (int64_t i = 0; i < n; ++i) {
    out[i] = static_cast<T>(static_cast<AccumulationType<T>>(sums[i]));
  }
}

// dx and dweight, without memory for the sums of several threads: a thread adds
// up some columns of a weight, of which it reads all rows.
template <typename T>
void WeightBackwardByColumns(const Executor& executor,
                             const RmsNormBackwardArgs<T>& args) {
  constexpr int64_t kColumns = 512;
  const int64_t blocks = (args.n + kColumns - 1) / kColumns;
  const int64_t columns = std::min(args.n, kColumns);
  const LineWork work = {args.weights * blocks, args.rows_per_weight,
                         ElementNs<T>(3) * static_cast<double>(columns)};
  ForEachLine(executor, work.lines, PlanLines(executor, work),
              [&](int64_t first, int64_t last) noexcept {
                for (int64_t i = first; i < last; ++i) {
                  const int64_t weight = i / blocks;
                  const int64_t row = weight * args.rows_per_weight;
                  const int64_t begin = i % blocks * kColumns;
                  const int64_t end = std::min(begin + kColumns, args.n);
                  double sums[kColumns] = {};
                  RmsNormWeightBackward(args, row, row + args.rows_per_weight,
                                        begin, end, sums);
                  Round(sums, end - begin,
                        args.dweight + weight * args.n + begin);
                }
              });
  ParallelDx(executor, args);
}

// dx of the rows [begin, end), which share a weight, and their part of dweight.
template <typename T>
void WeightBackwardOfRows(const RmsNormBackwardArgs<T>& args, int64_t begin,
                          int64_t end, double* sums) {
  std::fill_n(sums, args.n, 0.0);
  // Groups small enough to stay in the cache between the two.
  constexpr int64_t kGroup = 8;
  for (int64_t row = begin; row < end; row += kGroup) {
    const int64_t last = std::min(row + kGroup, end);
    RmsNormWeightBackward(args, row, last, 0, args.n, sums);
    RmsNormBackward(args, row, last);
  }
}

// dx and dweight. If the rows of one weight are worth several threads, all
// threads share them, one weight after the other; else each thread has whole
// weights. The number of weights does not decide, so that vmap does not change
// the order in which the rows of a weight are added up.
template <typename T>
void WeightBackward(const Executor& executor,
                    const RmsNormBackwardArgs<T>& args) {
  // At most 64 KiB of sums per thread.
  constexpr int64_t kMaxLength = 8192;
  if (args.n > kMaxLength) return WeightBackwardByColumns(executor, args);
  const int64_t rows = args.rows_per_weight;
  const double row_ns = ElementNs<T>(3) * static_cast<double>(args.n);
  LinePlan plan = PlanLines(executor, {1, rows, row_ns, /*shared_ns=*/row_ns});
  if (plan.is_shared) {  // each part has sums of its own
    plan.parts = std::min(plan.parts, executor.num_threads());
  } else {
    plan = PlanLines(executor, {args.weights, rows, row_ns});
  }
  const WorkerScratch<double> memory(NumWorkers(executor, plan.parts), args.n);
  if (!memory.status()) return WeightBackwardByColumns(executor, args);
  ForEachLine(
      executor, args.weights, plan,
      [&](int64_t begin, int64_t end, int64_t worker) noexcept {
        double* const sums = memory.of(worker);
        for (int64_t i = begin; i < end; ++i) {
          WeightBackwardOfRows(args, i * rows, (i + 1) * rows, sums);
          Round(sums, args.n, args.dweight + i * args.n);
        }
      },
      [&](int64_t weight) {
        ParallelTasks(executor, plan.parts, [&](int64_t part) noexcept {
          const int64_t row = weight * rows;
          WeightBackwardOfRows(args, row + rows * part / plan.parts,
                               row + rows * (part + 1) / plan.parts,
                               memory.of(part));
        });
        double* const sums = memory.of(0);
        for (int64_t part = 1; part < plan.parts; ++part) {
          const double* const others = memory.of(part);
          for (int64_t i = 0; i < args.n; ++i) sums[i] += others[i];
        }
        Round(sums, args.n, args.dweight + weight * args.n);
      });
}

}  // namespace rms_norm_internal

// RmsNorm() of all rows.
template <typename T>
void ParallelRmsNorm(const Executor& executor,
                     const RmsNormForwardArgs<T>& args) {
  using A = AccumulationType<T>;
  rms_norm_internal::ForEachRow<T, double>(
      executor, args.rows, args.n, args.residual == nullptr ? 2 : 4,
      [&](int64_t begin, int64_t end) noexcept { RmsNorm(args, begin, end); },
      [&](int64_t row, int64_t begin, int64_t end) {
        return RmsNormPower(args, row, begin, end);
      },
      [&](int64_t row, double power) {
        const A scale = RmsNormScale<A>(power, args.n, args.eps);
        if (args.scale != nullptr) args.scale[row] = scale;
        return scale;
      },
      [&](int64_t row, int64_t begin, int64_t end, A scale) {
        RmsNormApply(args, row, begin, end, scale);
      });
}

// RmsNormBackward() of all rows, and dweight if it is wanted.
template <typename T>
void ParallelRmsNormBackward(const Executor& executor,
                             const RmsNormBackwardArgs<T>& args) {
  args.dweight == nullptr ? rms_norm_internal::ParallelDx(executor, args)
                          : rms_norm_internal::WeightBackward(executor, args);
}

}  // namespace xla_ffi_kit

#endif  // XLA_FFI_OPS_RMS_NORM_RMS_NORM_PARALLEL_H_
