#include "accelerate/kernels/cumulative/cumulative.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "accelerate/core/ordered_key.h"
#include "accelerate/kernels/cumulative/cumulative_ops.h"
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

// The type of an element's bits as the kernels here scan them, whether signed
// or not, and the operation on them: of floats the maximum and the minimum
// only.
template <typename T>
using Scanned = std::make_signed_t<BitsOf<T>>;

template <typename T, class Fn>
void VisitOp(const CumulativeProblem& p, const Fn& fn) {
  using K = Scanned<T>;
  const bool is_min = p.op == CumulativeOp::kMin;
  if constexpr (std::is_integral_v<T>) {
    if (p.op == CumulativeOp::kSum) return fn(Add<K>());
    if (p.op == CumulativeOp::kProduct) return fn(Mul<K>());
    fn(IntegerExtreme<K>(is_min, std::is_signed_v<T>));
  } else {
    fn(FloatExtreme<K>::template Of<T>(is_min, p.subnormals_are_zero));
  }
}

// Functions with a loop take the operation by value: behind a reference its
// fields might change with every element that is written, and clang does not
// vectorize what reads them where a condition holds.

// out[k] = before op in[0] op ... op in[k]; with `reverse`, from the end.
// `before` is a code.
template <class Op, typename T>
void ScanLine(Op op, const T* in, int64_t n, bool reverse, T before, T* out) {
  if constexpr (std::is_same_v<Op, Add<T>>) {
    using U = std::make_unsigned_t<T>;
    return SumLine(reinterpret_cast<const U*>(in), n, reverse,
                   static_cast<U>(before), reinterpret_cast<U*>(out));
  }
  // Blocks where codes are worth being computed by vectors, so that only the
  // scan itself goes element by element.
  constexpr int64_t kBlock = Op::kIsOfFloats ? 256 : 1;
  std::array<T, kBlock> codes;
  T total = before;
  for (int64_t first = 0, count; first < n; first += count) {
    count = std::min(kBlock, n - first);
    const int64_t begin = reverse ? n - first - count : first;
    for (int64_t i = 0; i < count; ++i) codes[i] = op.Encode(in[begin + i]);
    for (int64_t k = 0; k < count; ++k) {
      T& code = codes[reverse ? count - 1 - k : k];
      code = total = op.Apply(total, code);
    }
    for (int64_t i = 0; i < count; ++i) out[begin + i] = op.Decode(codes[i]);
  }
}

// Lines one after the other, too short for anything that is done once a line.
template <class Op, typename T>
void ScanShortLines(Op op, const T* in, int64_t n, int64_t lines, bool reverse,
                    T* out) {
  for (const T* const end = in + lines * n; in < end; in += n, out += n) {
    T total = Op::kIdentity;
    for (int64_t k = 0; k < n; ++k) {
      const int64_t i = reverse ? n - 1 - k : k;
      total = op.Apply(total, op.Encode(in[i]));
      out[i] = op.Decode(total);
    }
  }
}

// Lines that are columns; `before_all` is null where there is nothing before
// them.
template <class Op, typename T>
void ScanColumns(Op op, const T* in, int64_t n, int64_t stride, int64_t columns,
                 bool reverse, const T* before_all, T* out) {
  if (reverse) {
    in += (n - 1) * stride;
    out += (n - 1) * stride;
    stride = -stride;
  }
  for (int64_t j = 0; j < columns; ++j) {
    const T before = before_all == nullptr ? Op::kIdentity : before_all[j];
    out[j] = op.Decode(op.Apply(before, op.Encode(in[j])));
  }
  for (int64_t k = 1; k < n; ++k) {
    in += stride;
    const T* before = out;
    out += stride;
    for (int64_t j = 0; j < columns; ++j) {
      out[j] = op.Decode(op.Apply(op.Encode(before[j]), op.Encode(in[j])));
    }
  }
}

// in[0] op ... op in[n - 1], as a code, of each column.
template <class Op, typename T>
void TotalsOf(Op op, const T* in, int64_t n, int64_t stride, int64_t columns,
              T* totals) {
  if (columns == 1 && stride == 1) {  // no array: a sum in registers
    T total = Op::kIdentity;
    for (int64_t i = 0; i < n; ++i) total = op.Apply(total, op.Encode(in[i]));
    *totals = total;
    return;
  }
  // Columns that are all there is are one row of several of them, and long
  // enough for vectors.
  constexpr int64_t kWide = 2 * kMaxScanColumns;
  std::array<T, kWide> wide;
  wide.fill(Op::kIdentity);
  const int64_t rows =
      stride == columns ? std::max(kWide / columns, int64_t{1}) : 1;
  const int64_t width = rows * columns;
  for (; n >= rows; n -= rows, in += rows * stride) {
    for (int64_t j = 0; j < width; ++j) {
      wide[j] = op.Apply(wide[j], op.Encode(in[j]));
    }
  }
  for (int64_t j = 0; j < n * columns; ++j) {
    wide[j] = op.Apply(wide[j], op.Encode(in[j]));
  }
  std::fill_n(totals, columns, Op::kIdentity);
  for (int64_t j = 0; j < width; ++j) {
    T& total = totals[j % columns];
    total = op.Apply(total, wide[j]);
  }
}

// One task's lines by all threads. Any order of these operations gives the same
// (integers wrap): first what each part comes to, then each part from what is
// before it. False if there is no memory for as many.
template <class Op, typename T>
bool ScanShared(const Op& op, const CumulativeProblem& p, const Task& task,
                int64_t parts, const Executor& executor, TypeTag<T>) {
  const T* const in = static_cast<const T*>(p.in) + task.offset;
  T* const out = static_cast<T*>(p.out) + task.offset;
  const int64_t columns = task.lines;
  const HostScratch<T> memory(parts * columns);
  T* const totals = memory.get();  // codes
  if (totals == nullptr) return false;
  ReduceThenApply(
      executor, p.length, parts,
      [&](int64_t part, int64_t begin, int64_t end) noexcept {
        TotalsOf(op, in + begin * p.inner, end - begin, p.inner, columns,
                 totals + part * columns);
      },
      [&] {
        for (int64_t j = 0; j < columns; ++j) {
          T before = Op::kIdentity;
          for (int64_t k = 0; k < parts; ++k) {
            T& total = totals[(p.reverse ? parts - 1 - k : k) * columns + j];
            before = op.Apply(before, std::exchange(total, before));
          }
        }
      },
      [&](int64_t part, int64_t begin, int64_t end) noexcept {
        const int64_t at = begin * p.inner, n = end - begin;
        const T* const before = totals + part * columns;
        if (p.inner == 1) {
          return ScanLine(op, in + at, n, p.reverse, *before, out + at);
        }
        ScanColumns(op, in + at, n, p.inner, columns, p.reverse, before,
                    out + at);
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
template <class Op, typename K>
void ScanTask(const CumulativeProblem& p, const Op& op, const Task& task,
              TypeTag<K>) {
  const K* in = static_cast<const K*>(p.in) + task.offset;
  K* out = static_cast<K*>(p.out) + task.offset;
  const int64_t n = p.length;
  if (p.inner > 1) {
    ScanColumns<Op, K>(op, in, n, p.inner, task.lines, p.reverse, nullptr, out);
  } else if (IsShort(p)) {
    ScanShortLines(op, in, n, task.lines, p.reverse, out);
  } else {
    ScanLine(op, in, n, p.reverse, Op::kIdentity, out);
  }
}

// Whether XLA's order of operations matters.
template <typename T>
bool IsRounded(const CumulativeProblem& p) {
  return !std::is_integral_v<T> && p.op <= CumulativeOp::kProduct;
}

// The lines of a task as ScanFloatLines() has them.
template <typename T>
FloatLines<T> FloatLinesOf(const CumulativeProblem& p, const Task& task) {
  FloatLines<T> lines;
  lines.is_product = p.op == CumulativeOp::kProduct;
  lines.in = static_cast<const T*>(p.in) + task.offset;
  lines.out = static_cast<T*>(p.out) + task.offset;
  lines.length = p.length;
  lines.stride = p.inner;
  lines.count = task.lines;
  return lines;
}

template <typename T>
void RunTask(const CumulativeProblem& p, const Task& task) {
  if constexpr (!std::is_integral_v<T>) {
    if (IsRounded<T>(p)) return ScanFloatLines(FloatLinesOf<T>(p, task));
  }
  VisitOp<T>(
      p, [&](const auto& op) { ScanTask(p, op, task, TypeTag<Scanned<T>>()); });
}

// Runs one task by all threads.
template <typename T>
bool RunShared(const CumulativeProblem& p, const Task& task, int64_t parts,
               const Executor& executor) {
  if constexpr (!std::is_integral_v<T>) {
    if (IsRounded<T>(p)) {
      return ScanShared(FloatLinesOf<T>(p, task), parts, executor);
    }
  }
  bool is_done = false;
  VisitOp<T>(p, [&](const auto& op) {
    is_done = ScanShared(op, p, task, parts, executor, TypeTag<Scanned<T>>());
  });
  return is_done;
}

// Returns the cost of an element.
template <typename T>
LineWork WorkOf(const CumulativeProblem& p) {
  const int64_t lines =
      std::min(LinesOfTask(p), p.inner == 1 ? p.outer : p.inner);
  LineWork work;
  work.lines = TaskCount(p);
  work.length = p.length * lines;
  const bool is_rounded = IsRounded<T>(p);
  const bool is_sum = p.op == CumulativeOp::kSum && !is_rounded;
  // Rows of columns are each begun anew.
  const double row_ns = p.inner == 1 ? 0 : is_rounded ? 8 : 2;
  work.element_ns = (p.inner > 1  ? 0.8
                     : is_rounded ? 0.65
                     : is_sum     ? 0.1 * sizeof(T)
                                  : 1.2) +
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
  problem.op = static_cast<CumulativeOp>(call.get<op>());
  problem.reverse = call.get<reverse>() != 0;
  problem.subnormals_are_zero = SubnormalsAreZero();
  problem.in = call.get<x>().data();
  problem.out = call.get<y>().data();
  return call.Dispatch<x>([&](auto tag) {
    using T = typename decltype(tag)::type;
    if (problem.reverse && IsRounded<T>(problem)) {
      return call.Invalid<x>("integers for a sum or a product from the end",
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
