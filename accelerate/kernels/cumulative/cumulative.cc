#include "accelerate/kernels/cumulative/cumulative.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <numeric>
#include <type_traits>
#include <utility>

#include "accelerate/kernels/cumulative/float_lines.h"
#include "accelerate/kernels/cumulative/sum_line.h"
#include "hwy/base.h"
#include "xla_ffi/core/handler.h"
#include "xla_ffi/core/lines.h"

namespace xla_ffi_accelerate::cumulative {
namespace {

// Lines as short as a block of XLA's: its order is simply from the first on.
bool IsShort(const CumulativeProblem& p) { return p.length <= kScanBlock; }

// Columns or, if `inner` is 1, lines one after the other.
struct Task {
  int64_t offset;
  int64_t lines;
};

// How many lines a task has: where XLA's order has more than one level, few
// enough for the totals of all levels to stay in the first-level cache.
int64_t LinesOfTask(const CumulativeProblem& p) {
  if (IsShort(p)) return 1024;
  return p.inner == 1 ? 1 : kMaxScanColumns;
}

int64_t CeilOfRatio(int64_t a, int64_t b) { return (a + b - 1) / b; }

int64_t TaskCount(const CumulativeProblem& p) {
  const int64_t lines = LinesOfTask(p);
  return p.inner == 1 ? CeilOfRatio(p.outer, lines)
                      : p.outer * CeilOfRatio(p.inner, lines);
}

Task TaskAt(const CumulativeProblem& p, int64_t i) {
  const int64_t lines = LinesOfTask(p);
  if (p.inner == 1) {
    const int64_t first = i * lines;
    return {first * p.length, std::min(lines, p.outer - first)};
  }
  const int64_t tiles = CeilOfRatio(p.inner, lines);
  const int64_t first = i % tiles * lines;
  return {i / tiles * p.length * p.inner + first,
          std::min(lines, p.inner - first)};
}

// Integers of any sign have the sums of unsigned ones, which wrap.
template <typename T>
using Summed = std::make_unsigned_t<T>;

// Lines one after the other, too short for anything that is done once a line.
template <typename U>
void SumShortLines(const U* in, int64_t n, int64_t lines, bool reverse,
                   U* out) {
  for (const U* const end = in + lines * n; in < end; in += n, out += n) {
    U total = 0;
    for (int64_t k = 0; k < n; ++k) {
      const int64_t i = reverse ? n - 1 - k : k;
      total = static_cast<U>(total + in[i]);
      out[i] = total;
    }
  }
}

// Lines that are columns; `before_all` is null where there is nothing before
// them.
template <typename U>
void SumColumns(const U* in, int64_t n, int64_t stride, int64_t columns,
                bool reverse, const U* before_all, U* out) {
  if (reverse) {
    in += (n - 1) * stride;
    out += (n - 1) * stride;
    stride = -stride;
  }
  for (int64_t j = 0; j < columns; ++j) {
    const U before = before_all == nullptr ? U{0} : before_all[j];
    out[j] = static_cast<U>(before + in[j]);
  }
  for (int64_t k = 1; k < n; ++k) {
    in += stride;
    const U* before = out;
    out += stride;
    for (int64_t j = 0; j < columns; ++j) {
      out[j] = static_cast<U>(before[j] + in[j]);
    }
  }
}

// in[0] + ... + in[n - 1] of each column.
template <typename U>
void TotalsOf(const U* in, int64_t n, int64_t stride, int64_t columns,
              U* totals) {
  if (columns == 1 && stride == 1) {  // no array: a sum in registers
    *totals = std::accumulate(in, in + n, U{0});
    return;
  }
  // Columns that are all there is are one row of several of them, and long
  // enough for vectors.
  constexpr int64_t kWide = 2 * kMaxScanColumns;
  std::array<U, kWide> wide = {};
  const int64_t rows =
      stride == columns ? std::max(kWide / columns, int64_t{1}) : 1;
  const int64_t width = rows * columns;
  for (; n >= rows; n -= rows, in += rows * stride) {
    for (int64_t j = 0; j < width; ++j) {
      wide[j] = static_cast<U>(wide[j] + in[j]);
    }
  }
  for (int64_t j = 0; j < n * columns; ++j) {
    wide[j] = static_cast<U>(wide[j] + in[j]);
  }
  std::fill_n(totals, columns, U{0});
  for (int64_t j = 0; j < width; ++j) {
    U& total = totals[j % columns];
    total = static_cast<U>(total + wide[j]);
  }
}

// One task's lines by all threads. Any order of the additions gives the same:
// first what each part comes to, then each part from what is before it. False
// if there is no memory for as many.
template <typename U>
bool SumShared(const CumulativeProblem& p, const Task& task, int64_t parts,
               const Executor& executor) {
  const U* const in = static_cast<const U*>(p.in) + task.offset;
  U* const out = static_cast<U*>(p.out) + task.offset;
  const int64_t columns = task.lines;
  const HostScratch<U> memory(parts * columns);
  U* const totals = memory.get();
  if (totals == nullptr) return false;
  ReduceThenApply(
      executor, p.length, parts,
      [&](int64_t part, int64_t begin, int64_t end) noexcept {
        TotalsOf(in + begin * p.inner, end - begin, p.inner, columns,
                 totals + part * columns);
      },
      [&] {
        for (int64_t j = 0; j < columns; ++j) {
          U before = 0;
          for (int64_t k = 0; k < parts; ++k) {
            U& total = totals[(p.reverse ? parts - 1 - k : k) * columns + j];
            before = static_cast<U>(before + std::exchange(total, before));
          }
        }
      },
      [&](int64_t part, int64_t begin, int64_t end) noexcept {
        const int64_t at = begin * p.inner, n = end - begin;
        const U* const before = totals + part * columns;
        if (p.inner == 1) {
          return SumLine(in + at, n, p.reverse, *before, out + at);
        }
        SumColumns(in + at, n, p.inner, columns, p.reverse, before, out + at);
      });
  return true;
}

// The same for floats, which XLA's order of operations divides into chunks.
template <typename R>
bool ScanShared(const FloatLines<R>& lines, int64_t parts,
                const Executor& executor) {
  const int64_t whole = lines.length / kScanChunk, size = whole * lines.count;
  const HostScratch<R> memory(4 * size);
  if (memory.get() == nullptr) return false;
  const ChunkEnds<R> ends = {memory.get(), memory.get() + size,
                             memory.get() + 2 * size, memory.get() + 3 * size};
  const int64_t chunks = CeilOfRatio(lines.length, kScanChunk);
  ReduceThenApply(
      executor, chunks, std::min(parts, chunks),
      [&](int64_t, int64_t begin, int64_t end) noexcept {
        ReduceFloatChunks(lines, begin, std::min(end, whole), ends);
      },
      [&] {
        FloatLines<R> totals = lines;
        totals.in = ends.total;
        totals.out = ends.results;
        totals.length = whole;
        totals.stride = lines.count;
        ScanFloatLines(totals);
      },
      [&](int64_t, int64_t begin, int64_t end) noexcept {
        ScanFloatChunks(lines, begin, end, ends);
      });
  return true;
}

// Separate from its callers, because they exist once for each element type.
template <typename U>
void SumTask(const CumulativeProblem& p, const Task& task) {
  const U* in = static_cast<const U*>(p.in) + task.offset;
  U* out = static_cast<U*>(p.out) + task.offset;
  const int64_t n = p.length;
  if (p.inner > 1) {
    SumColumns<U>(in, n, p.inner, task.lines, p.reverse, nullptr, out);
  } else if (IsShort(p)) {
    SumShortLines(in, n, task.lines, p.reverse, out);
  } else {
    SumLine(in, n, p.reverse, U{0}, out);
  }
}

// The lines of a task as ScanFloatLines() has them.
template <typename T>
FloatLines<T> FloatLinesOf(const CumulativeProblem& p, const Task& task) {
  FloatLines<T> lines;
  lines.in = static_cast<const T*>(p.in) + task.offset;
  lines.out = static_cast<T*>(p.out) + task.offset;
  lines.length = p.length;
  lines.stride = p.inner;
  lines.count = task.lines;
  return lines;
}

template <typename T>
void RunTask(const CumulativeProblem& p, const Task& task) {
  if constexpr (std::is_integral_v<T>) {
    SumTask<Summed<T>>(p, task);
  } else {
    ScanFloatLines(FloatLinesOf<T>(p, task));
  }
}

// Runs one task by all threads.
template <typename T>
bool RunShared(const CumulativeProblem& p, const Task& task, int64_t parts,
               const Executor& executor) {
  if constexpr (std::is_integral_v<T>) {
    return SumShared<Summed<T>>(p, task, parts, executor);
  } else {
    return ScanShared(FloatLinesOf<T>(p, task), parts, executor);
  }
}

// Returns the cost of an element.
template <typename T>
LineWork WorkOf(const CumulativeProblem& p) {
  const int64_t lines =
      std::min(LinesOfTask(p), p.inner == 1 ? p.outer : p.inner);
  LineWork work;
  work.lines = TaskCount(p);
  work.length = p.length * lines;
  constexpr bool is_rounded = !std::is_integral_v<T>;
  // Rows of columns are each begun anew.
  const double row_ns = p.inner == 1 ? 0 : is_rounded ? 8 : 2;
  work.element_ns = (p.inner > 1  ? 0.8
                     : is_rounded ? 0.65
                                  : 0.1 * sizeof(T)) +
                    row_ns / static_cast<double>(lines);
  // Includes the first pass, which uses vectors for columns.
  if (!IsShort(p)) {
    work.shared_ns = work.element_ns + (p.inner == 1 && is_rounded ? 1.0 : 0.3);
  }
  return work;
}

}  // namespace

template <typename T>
HWY_NOINLINE void Cumulative(const CumulativeProblem& p,
                             const Executor& executor) {
  if (p.outer == 0 || p.length == 0 || p.inner == 0) return;
  const LineWork work = WorkOf<T>(p);
  const LinePlan plan = PlanLines(executor, work);
  ForEachLine(
      executor, work.lines, plan,
      [&](int64_t begin, int64_t end) noexcept {
        for (int64_t i = begin; i < end; ++i) RunTask<T>(p, TaskAt(p, i));
      },
      [&](int64_t i) {
        const Task task = TaskAt(p, i);
        const int64_t parts = std::min(plan.parts, p.length);
        if (!RunShared<T>(p, task, parts, executor)) RunTask<T>(p, task);
      });
}

namespace {

namespace ffi = ::xla::ffi;

ffi::Error Run(const CumulativeCall& call, const Executor& executor) {
  const AxisShape shape = SplitAxis(call.get<x>().dims(), call.get<axis>());
  CumulativeProblem problem;
  problem.outer = shape.outer;
  problem.length = shape.length;
  problem.inner = shape.inner;
  problem.reverse = call.get<reverse>() != 0;
  problem.in = call.get<x>().data();
  problem.out = call.get<y>().data();
  return call.Dispatch<x>([&](auto tag) {
    using T = typename decltype(tag)::type;
    if (problem.reverse && !std::is_integral_v<T>) {
      return call.Invalid<x>("integers for a sum from the end",
                             "dtype " + DtypeName(call.get<x>().dtype()));
    }
    Cumulative<T>(problem, executor);
    return ffi::Error();
  });
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(XlaFfiAccelerateCumulativeCpu, Checked<Run>,
                              BindCall<Run>());
XLA_FFI_KIT_DEFINE_SIGNATURE(XlaFfiAccelerateCumulativeCpu, CumulativeCall);

}  // namespace xla_ffi_accelerate::cumulative
