// RMS normalization on several threads: which thread does which part.
//
// Results do not depend on scheduling; those of split rows and of dweight may
// depend, in the last digit, on the number of threads. Without memory for the
// sums of several threads, rows are not split, and each thread owns columns of
// dweight, which takes longer.

#ifndef XLA_FFI_OPS_RMS_NORM_RMS_NORM_PARALLEL_H_
#define XLA_FFI_OPS_RMS_NORM_RMS_NORM_PARALLEL_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "xla_ffi/core/accumulation_type.h"
#include "xla_ffi/core/components.h"
#include "xla_ffi/core/executor.h"
#include "xla_ffi/core/host_scratch.h"
#include "xla_ffi/core/parallel_for.h"
#include "xla_ffi/ops/rms_norm/rms_norm.h"

namespace xla_ffi_kit {
namespace rms_norm_internal {

// Whether to let the threads share each row: rows are large and too few to
// divide evenly.
inline bool SplitsRows(const Executor& executor, int64_t rows,
                       int64_t row_bytes) {
  if (row_bytes < kParallelForMinBytes) return false;
  const int64_t threads = executor.num_threads();
  return threads > 1 && rows < 4 * threads;
}

// A row in parts of equal length. Few enough that a sum per part is small, and
// each small enough to divide the work.
struct Parts {
  explicit Parts(int64_t n)
      : length(n),
        part_length(std::max(int64_t{1} << 16, n / 2048)),
        count((n + part_length - 1) / part_length) {}

  int64_t Begin(int64_t part) const { return part * part_length; }
  int64_t End(int64_t part) const {
    return std::min(Begin(part) + part_length, length);
  }

  int64_t length, part_length, count;
};

// One S for each part of a row; null if rows are not to be split.
template <typename S>
HostScratch<S> MemoryToSplitRows(const Executor& executor, int64_t rows,
                                 int64_t row_bytes, const Parts& parts) {
  if (!SplitsRows(executor, rows, row_bytes)) return HostScratch<S>();
  return HostScratch<S>(parts.count);
}

// Calls fn(part, begin, end) for each part, on several threads.
template <typename Fn>
void ForEachPart(const Executor& executor, const Parts& parts,
                 int64_t row_bytes, const Fn& fn) {
  ParallelFor(executor, parts.count, row_bytes / parts.count,
              [&](int64_t first, int64_t last) noexcept {
                for (int64_t p = first; p < last; ++p) {
                  fn(p, parts.Begin(p), parts.End(p));
                }
              });
}

// Rounds sums in double to n elements of T.
template <typename T>
void Round(const double* sums, int64_t n, T* out) {
  using R = ComponentType<T>;
  R* components = AsComponents(out);
  for (int64_t i = 0; i < n * kComponents<T>; ++i) {
    components[i] = static_cast<R>(static_cast<AccumulationType<T>>(sums[i]));
  }
}

}  // namespace rms_norm_internal

// RmsNorm() of all rows.
template <typename T>
void ParallelRmsNorm(const Executor& executor,
                     const RmsNormForwardArgs<T>& args) {
  using A = AccumulationType<T>;
  const int64_t arrays = args.residual == nullptr ? 2 : 4;
  const int64_t row_bytes = arrays * args.n * static_cast<int64_t>(sizeof(T));
  const rms_norm_internal::Parts parts(args.n);
  const auto powers = rms_norm_internal::MemoryToSplitRows<double>(
      executor, args.rows, row_bytes, parts);
  if (powers.get() == nullptr) {
    return ParallelFor(executor, args.rows, row_bytes,
                       [&](int64_t begin, int64_t end) noexcept {
                         RmsNorm(args, begin, end);
                       });
  }
  for (int64_t row = 0; row < args.rows; ++row) {
    rms_norm_internal::ForEachPart(
        executor, parts, row_bytes,
        [&](int64_t part, int64_t begin, int64_t end) {
          powers.get()[part] = RmsNormPower(args, row, begin, end);
        });
    double power = 0;
    for (int64_t part = 0; part < parts.count; ++part) {
      power += powers.get()[part];
    }
    const A scale = RmsNormScale<A>(power, args.n, args.eps);
    if (args.scale != nullptr) args.scale[row] = scale;
    rms_norm_internal::ForEachPart(executor, parts, row_bytes,
                                   [&](int64_t, int64_t begin, int64_t end) {
                                     RmsNormApply(args, row, begin, end, scale);
                                   });
  }
}

namespace rms_norm_internal {

// dx of all rows.
template <typename T>
void ParallelBackward(const Executor& executor,
                      const RmsNormBackwardArgs<T>& args) {
  const int64_t row_bytes = 3 * args.n * static_cast<int64_t>(sizeof(T));
  const Parts parts(args.n);
  const auto sums = MemoryToSplitRows<RmsNormBackwardSums>(executor, args.rows,
                                                           row_bytes, parts);
  if (sums.get() == nullptr) {
    return ParallelFor(executor, args.rows, row_bytes,
                       [&](int64_t begin, int64_t end) noexcept {
                         RmsNormBackward(args, begin, end);
                       });
  }
  for (int64_t row = 0; row < args.rows; ++row) {
    ForEachPart(executor, parts, row_bytes,
                [&](int64_t part, int64_t begin, int64_t end) {
                  sums.get()[part] =
                      RmsNormBackwardReduce(args, row, begin, end);
                });
    RmsNormBackwardSums total = {0, 0};
    for (int64_t part = 0; part < parts.count; ++part) {
      total.dot += sums.get()[part].dot;
      total.power += sums.get()[part].power;
    }
    ForEachPart(executor, parts, row_bytes,
                [&](int64_t, int64_t begin, int64_t end) {
                  RmsNormBackwardApply(args, row, begin, end, total);
                });
  }
}

// dx and dweight of rows that share one weight. Each thread owns columns, and
// reads their part of all rows.
template <typename T>
void WeightBackwardByColumns(const Executor& executor,
                             const RmsNormBackwardArgs<T>& args) {
  const int64_t row_bytes = 3 * args.n * static_cast<int64_t>(sizeof(T));
  constexpr int64_t kColumns = 512;
  const int64_t blocks = (args.n + kColumns - 1) / kColumns;
  ParallelFor(executor, blocks, args.rows * row_bytes / blocks,
              [&](int64_t first, int64_t last) noexcept {
                for (int64_t block = first; block < last; ++block) {
                  const int64_t begin = block * kColumns;
                  const int64_t end = std::min(begin + kColumns, args.n);
                  double sums[2 * kColumns] = {};
                  RmsNormWeightBackward(args, 0, args.rows, begin, end, sums);
                  Round(sums, end - begin, args.dweight + begin);
                }
              });
  ParallelBackward(executor, args);
}

// Chooses one of these by the length of rows.
template <typename T>
void ParallelWeightBackward(const Executor& executor,
                            const RmsNormBackwardArgs<T>& args) {
  const int64_t width = kComponents<T> * args.n;  // of dweight, in doubles
  const int64_t row_bytes = 3 * args.n * static_cast<int64_t>(sizeof(T));
  // At most 64 KiB of sums per thread.
  constexpr int64_t kMaxWidth = 8192;
  if (width > kMaxWidth) return WeightBackwardByColumns(executor, args);
  // Each thread owns rows, reads them once, and has sums of its own.
  const int64_t owners = std::clamp<int64_t>(
      args.rows / std::max<int64_t>(kParallelForMinBytes / 2 / row_bytes, 1), 1,
      executor.num_threads());
  const HostScratch<double> memory(owners * width);
  double* const sums = memory.get();
  if (sums == nullptr) return WeightBackwardByColumns(executor, args);
  std::fill_n(sums, owners * width, 0.0);
  ParallelFor(executor, owners, kParallelForMinBytes,
              [&](int64_t first, int64_t last) noexcept {
                for (int64_t owner = first; owner < last; ++owner) {
                  const int64_t stop = args.rows * (owner + 1) / owners;
                  // Groups small enough to stay in the cache between the two.
                  constexpr int64_t kGroup = 8;
                  for (int64_t row = args.rows * owner / owners; row < stop;
                       row += kGroup) {
                    const int64_t end = std::min(row + kGroup, stop);
                    RmsNormWeightBackward(args, row, end, 0, args.n,
                                          sums + owner * width);
                    RmsNormBackward(args, row, end);
                  }
                }
              });
  for (int64_t owner = 1; owner < owners; ++owner) {
    for (int64_t i = 0; i < width; ++i) sums[i] += sums[owner * width + i];
  }
  Round(sums, args.n, args.dweight);
}

// The arguments of the rows of weight number `weight`.
template <typename T>
RmsNormBackwardArgs<T> OfWeight(RmsNormBackwardArgs<T> args, int64_t weight) {
  args.rows = args.rows_per_weight;
  const int64_t row = weight * args.rows;
  args.scale += row;
  args.x += row * args.n;
  args.weight += weight * args.n;
  args.ct += row * args.n;
  if (args.ct_sum != nullptr) args.ct_sum += row * args.n;
  args.dx += row * args.n;
  args.dweight += weight * args.n;
  return args;
}

}  // namespace rms_norm_internal

// RmsNormBackward() of all rows, and dweight if it is wanted.
template <typename T>
void ParallelRmsNormBackward(const Executor& executor,
                             const RmsNormBackwardArgs<T>& args) {
  if (args.dweight == nullptr) {
    return rms_norm_internal::ParallelBackward(executor, args);
  }
  for (int64_t i = 0; i < args.weights; ++i) {
    rms_norm_internal::ParallelWeightBackward(
        executor, rms_norm_internal::OfWeight(args, i));
  }
}

}  // namespace xla_ffi_kit

#endif  // XLA_FFI_OPS_RMS_NORM_RMS_NORM_PARALLEL_H_
