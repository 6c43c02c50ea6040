// RMS normalisation on several threads: which thread does which part.
//
// `Pool` is xla::ffi::ThreadPool or anything like it (see ParallelFor). Results
// do not depend on scheduling; those of split rows and of dweight may depend,
// in the last digit, on the number of threads.

#ifndef XLA_FFI_OPS_RMS_NORM_RMS_NORM_PARALLEL_H_
#define XLA_FFI_OPS_RMS_NORM_RMS_NORM_PARALLEL_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "xla_ffi/core/accumulation_type.h"
#include "xla_ffi/core/components.h"
#include "xla_ffi/core/executor.h"
#include "xla_ffi/core/parallel_for.h"
#include "xla_ffi/ops/rms_norm/rms_norm.h"
#include "xla_ffi/ops/rms_norm/rms_norm_backward.h"

namespace xla_ffi_kit {
namespace rms_norm_internal {

// Whether to let the threads share each row: rows are large and too few to
// divide evenly.
template <typename Pool>
bool SplitsRows(Pool& pool, int64_t rows, int64_t row_bytes) {
  if (row_bytes < kParallelForMinBytes) return false;
  const int64_t threads = Executor(pool).num_threads();
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

// Calls fn(part, begin, end) for each part, on several threads.
template <typename Pool, typename Fn>
void ForEachPart(Pool& pool, const Parts& parts, int64_t row_bytes,
                 const Fn& fn) {
  ParallelFor(pool, parts.count, row_bytes / parts.count,
              [&](int64_t first, int64_t last) {
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

// RmsNorm() for all rows.
template <typename Pool, typename T>
void ParallelRmsNorm(Pool& pool, const RmsNormForward<T>& args, int64_t rows) {
  using A = AccumulationType<T>;
  const int64_t arrays = args.residual == nullptr ? 2 : 4;
  const int64_t row_bytes = arrays * args.n * static_cast<int64_t>(sizeof(T));
  if (!rms_norm_internal::SplitsRows(pool, rows, row_bytes)) {
    return ParallelFor(pool, rows, row_bytes, [&](int64_t begin, int64_t end) {
      RmsNorm(args, begin, end);
    });
  }
  const rms_norm_internal::Parts parts(args.n);
  std::vector<double> powers(static_cast<size_t>(parts.count));
  for (int64_t row = 0; row < rows; ++row) {
    rms_norm_internal::ForEachPart(
        pool, parts, row_bytes, [&](int64_t part, int64_t begin, int64_t end) {
          powers[part] = RmsNormPower(args, row, begin, end);
        });
    double power = 0;
    for (const double of_part : powers) power += of_part;
    const A scale = RmsNormScale<A>(power, args.n, args.eps);
    if (args.scale != nullptr) args.scale[row] = scale;
    rms_norm_internal::ForEachPart(pool, parts, row_bytes,
                                   [&](int64_t, int64_t begin, int64_t end) {
                                     RmsNormApply(args, row, begin, end, scale);
                                   });
  }
}

// RmsNormGradient() for all rows.
template <typename Pool, typename T>
void ParallelRmsNormGradient(Pool& pool, const RmsNormBackward<T>& args,
                             int64_t rows) {
  const int64_t row_bytes = 3 * args.n * static_cast<int64_t>(sizeof(T));
  if (!rms_norm_internal::SplitsRows(pool, rows, row_bytes)) {
    return ParallelFor(pool, rows, row_bytes, [&](int64_t begin, int64_t end) {
      RmsNormGradient(args, begin, end);
    });
  }
  const rms_norm_internal::Parts parts(args.n);
  std::vector<RmsNormSums> sums(static_cast<size_t>(parts.count));
  for (int64_t row = 0; row < rows; ++row) {
    rms_norm_internal::ForEachPart(
        pool, parts, row_bytes, [&](int64_t part, int64_t begin, int64_t end) {
          sums[part] = RmsNormGradientSums(args, row, begin, end);
        });
    RmsNormSums total = {0, 0};
    for (const RmsNormSums& of_part : sums) {
      total.dot += of_part.dot;
      total.power += of_part.power;
    }
    rms_norm_internal::ForEachPart(
        pool, parts, row_bytes, [&](int64_t, int64_t begin, int64_t end) {
          RmsNormGradientApply(args, row, begin, end, total);
        });
  }
}

// RmsNormGradient() for the rows of one weight, the first `rows` of args, and
// its gradient.
template <typename Pool, typename T>
void ParallelRmsNormWeightGradient(Pool& pool, const RmsNormBackward<T>& args,
                                   int64_t rows, T* dweight) {
  const int64_t width = kComponents<T> * args.n;  // of dweight, in doubles
  const int64_t row_bytes = 3 * args.n * static_cast<int64_t>(sizeof(T));
  // At most 64 KiB of sums per thread.
  constexpr int64_t kMaxWidth = 8192;
  if (width > kMaxWidth) {
    // Each thread owns columns, and reads their part of all rows.
    constexpr int64_t kColumns = 512;
    const int64_t blocks = (args.n + kColumns - 1) / kColumns;
    ParallelFor(pool, blocks, rows * row_bytes / blocks,
                [&](int64_t first, int64_t last) {
                  for (int64_t block = first; block < last; ++block) {
                    const int64_t begin = block * kColumns;
                    const int64_t end = std::min(begin + kColumns, args.n);
                    double sums[2 * kColumns] = {};
                    RmsNormWeightGradient(args, 0, rows, begin, end, sums);
                    rms_norm_internal::Round(sums, end - begin,
                                             dweight + begin);
                  }
                });
    return ParallelRmsNormGradient(pool, args, rows);
  }
  // Each thread owns rows, reads them once, and has sums of its own.
  const int64_t owners = std::clamp<int64_t>(
      rows / std::max<int64_t>(kParallelForMinBytes / 2 / row_bytes, 1), 1,
      Executor(pool).num_threads());
  std::vector<double> sums(static_cast<size_t>(owners * width));
  ParallelFor(
      pool, owners, kParallelForMinBytes, [&](int64_t first, int64_t last) {
        for (int64_t owner = first; owner < last; ++owner) {
          const int64_t stop = rows * (owner + 1) / owners;
          // Groups small enough to stay in the cache between the two.
          constexpr int64_t kGroup = 8;
          for (int64_t row = rows * owner / owners; row < stop; row += kGroup) {
            const int64_t end = std::min(row + kGroup, stop);
            RmsNormWeightGradient(args, row, end, 0, args.n,
                                  sums.data() + owner * width);
            RmsNormGradient(args, row, end);
          }
        }
      });
  for (int64_t owner = 1; owner < owners; ++owner) {
    for (int64_t i = 0; i < width; ++i) sums[i] += sums[owner * width + i];
  }
  rms_norm_internal::Round(sums.data(), args.n, dweight);
}

}  // namespace xla_ffi_kit

#endif  // XLA_FFI_OPS_RMS_NORM_RMS_NORM_PARALLEL_H_
