#include "xla_ffi/ops/cumulative/cumulative.h"

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "xla_ffi/core/half.h"
#include "xla_ffi/core/parallel_for.h"
#include "xla_ffi/ops/cumulative/cumulative_ops.h"
#include "xla_ffi/ops/cumulative/float_lines.h"
#include "xla_ffi/ops/cumulative/sum_line.h"

namespace xla_ffi_kit {
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

// Calls fn with the operation on integers of type T.
template <typename T, class Fn>
void VisitOp(CumulativeOp op, const Fn& fn) {
  switch (op) {
    case CumulativeOp::kSum:
      return fn(Add<T>());
    case CumulativeOp::kProduct:
      return fn(Mul<T>());
    case CumulativeOp::kMax:
      return fn(Max<T>());
    default:
      return fn(Min<T>());
  }
}

// out[k] = before op in[0] op ... op in[k]; with `reverse`, from the end.
template <class Op, typename T>
void ScanLine(const T* in, int64_t n, bool reverse, T before, T* out) {
  if constexpr (std::is_same_v<Op, Add<T>>) {
    using U = std::make_unsigned_t<T>;
    return SumLine(reinterpret_cast<const U*>(in), n, reverse,
                   static_cast<U>(before), reinterpret_cast<U*>(out));
  }
  T total = before;
  for (int64_t k = 0; k < n; ++k) {
    const int64_t i = reverse ? n - 1 - k : k;
    out[i] = total = Op::Apply(total, in[i]);
  }
}

// Lines one after the other, too short for anything that is done once a line.
template <class Op, typename T>
void ScanShortLines(const T* in, int64_t n, int64_t lines, bool reverse,
                    T* out) {
  for (const T* const end = in + lines * n; in < end; in += n, out += n) {
    T total = Op::kIdentity;
    for (int64_t k = 0; k < n; ++k) {
      const int64_t i = reverse ? n - 1 - k : k;
      out[i] = total = Op::Apply(total, in[i]);
    }
  }
}

// Lines that are columns.
template <class Op, typename T>
void ScanColumns(const T* in, int64_t n, int64_t stride, int64_t columns,
                 bool reverse, T* out) {
  if (reverse) {
    in += (n - 1) * stride;
    out += (n - 1) * stride;
    stride = -stride;
  }
  for (int64_t j = 0; j < columns; ++j) {
    out[j] = Op::Apply(Op::kIdentity, in[j]);
  }
  for (int64_t k = 1; k < n; ++k) {
    in += stride;
    const T* before = out;
    out += stride;
    for (int64_t j = 0; j < columns; ++j) {
      out[j] = Op::Apply(before[j], in[j]);
    }
  }
}

// One line by all threads. Integers wrap, so any order of operations gives the
// same: first what each part comes to, then each part from what is before it.
template <class Op, typename T>
void ScanLongLine(const T* in, int64_t n, bool reverse, T* out,
                  const Executor& executor) {
  const int64_t parts = kPartsPerThread * executor.num_threads();
  const auto begin_of = [&](int64_t part) { return PartBegin(n, parts, part); };
  // Of each part; one more of nothing, for the part that comes first.
  std::vector<T> totals(parts + 1, Op::kIdentity);
  T* const total_of = totals.data() + (reverse ? 0 : 1);
  ParallelTasks(executor, parts, [&](int64_t part) {
    T total = Op::kIdentity;
    for (int64_t i = begin_of(part); i < begin_of(part + 1); ++i) {
      total = Op::Apply(total, in[i]);
    }
    total_of[part] = total;
  });
  ScanLine<Op>(totals.data(), parts + 1, reverse, Op::kIdentity, totals.data());
  T* const before = totals.data() + (reverse ? 1 : 0);
  ParallelTasks(executor, parts, [&](int64_t part) {
    const int64_t begin = begin_of(part);
    ScanLine<Op>(in + begin, begin_of(part + 1) - begin, reverse, before[part],
                 out + begin);
  });
}

template <typename T>
void RunIntegers(const CumulativeProblem& p, const T* in, int64_t lines,
                 T* out) {
  const int64_t n = p.length;
  VisitOp<T>(p.op, [&](auto op) {
    using Op = decltype(op);
    if (p.inner > 1) {
      ScanColumns<Op>(in, n, p.inner, lines, p.reverse, out);
    } else if (IsShort(p)) {
      ScanShortLines<Op>(in, n, lines, p.reverse, out);
    } else {
      ScanLine<Op>(in, n, p.reverse, Op::kIdentity, out);
    }
  });
}

template <typename T>
void Run(const CumulativeProblem& p, const Task& task) {
  const T* in = static_cast<const T*>(p.in) + task.offset;
  T* out = static_cast<T*>(p.out) + task.offset;
  if constexpr (std::is_integral_v<T>) {
    RunIntegers(p, in, task.lines, out);
  } else {
    FloatLines<T> lines;
    lines.is_product = p.op == CumulativeOp::kProduct;
    lines.in = in;
    lines.out = out;
    lines.length = p.length;
    lines.stride = p.inner;
    lines.count = task.lines;
    ScanFloatLines(lines);
  }
}

}  // namespace

template <typename T>
void Cumulative(const CumulativeProblem& p, const Executor& executor) {
  if (p.outer == 0 || p.length == 0 || p.inner == 0) return;
  // Minimum bytes per task, read and written, for which another thread is
  // worthwhile.
  constexpr int64_t kMinBytes = int64_t{1} << 18;
  const int64_t bytes = p.outer * p.length * p.inner * 2 * sizeof(T);
  if constexpr (std::is_integral_v<T>) {
    // A line is read twice then, and a sum takes no longer than reading does.
    const int64_t min_line = p.op == CumulativeOp::kSum ? 32 : 4;
    if (p.outer == 1 && p.inner == 1 && bytes >= min_line * kMinBytes &&
        executor.num_threads() > 1) {
      return VisitOp<T>(p.op, [&](auto op) {
        ScanLongLine<decltype(op)>(static_cast<const T*>(p.in), p.length,
                                   p.reverse, static_cast<T*>(p.out), executor);
      });
    }
  }
  const int64_t tasks = TaskCount(p);
  ParallelParts(executor, tasks, NumParts(executor, bytes, kMinBytes, tasks),
                [&](int64_t begin, int64_t end) {
                  for (int64_t i = begin; i < end; ++i) Run<T>(p, TaskAt(p, i));
                });
}

#define XLA_FFI_KIT_INSTANTIATE(T) \
  template void Cumulative<T>(const CumulativeProblem&, const Executor&)
XLA_FFI_KIT_INSTANTIATE(int8_t);
XLA_FFI_KIT_INSTANTIATE(int16_t);
XLA_FFI_KIT_INSTANTIATE(int32_t);
XLA_FFI_KIT_INSTANTIATE(int64_t);
XLA_FFI_KIT_INSTANTIATE(uint8_t);
XLA_FFI_KIT_INSTANTIATE(uint16_t);
XLA_FFI_KIT_INSTANTIATE(uint32_t);
XLA_FFI_KIT_INSTANTIATE(uint64_t);
XLA_FFI_KIT_INSTANTIATE(Float16);
XLA_FFI_KIT_INSTANTIATE(BFloat16);
XLA_FFI_KIT_INSTANTIATE(float);
XLA_FFI_KIT_INSTANTIATE(double);
#undef XLA_FFI_KIT_INSTANTIATE

}  // namespace xla_ffi_kit
