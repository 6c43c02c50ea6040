#include "xla_ffi/ops/cumulative/cumulative.h"

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "xla_ffi/ops/cumulative/cumulative_ops.h"
#include "xla_ffi/ops/cumulative/float_lines.h"
#include "xla_ffi/ops/cumulative/sum_line.h"

namespace xla_ffi_kit {
namespace {

// Lines as short as a block of XLA's: its order is simply from the first on.
bool IsShort(const CumulativeProblem& p) { return p.length <= kScanBlock; }

// Lines side by side or, if they are short, one after the other.
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

// Calls fn with an operation on the elements' type, an integer.
template <typename T, class Fn>
void VisitOp(CumulativeOp op, const Fn& fn) {
  switch (op) {
    case CumulativeOp::kSum:
      return fn(Plus<T>());
    case CumulativeOp::kProduct:
      return fn(Times<T>());
    case CumulativeOp::kMax:
      return fn(Larger<T>());
    default:
      return fn(Smaller<T>());
  }
}

bool IsFloat(KeyKind kind) {
  return kind != KeyKind::kSigned && kind != KeyKind::kUnsigned;
}

// Calls fn with a zero of the elements' type, an integer.
template <class Fn>
void VisitInteger(const CumulativeProblem& p, const Fn& fn) {
  const bool is_signed = p.kind == KeyKind::kSigned;
  switch (p.width) {
    case 1:
      return is_signed ? fn(int8_t{}) : fn(uint8_t{});
    case 2:
      return is_signed ? fn(int16_t{}) : fn(uint16_t{});
    case 4:
      return is_signed ? fn(int32_t{}) : fn(uint32_t{});
    default:
      return is_signed ? fn(int64_t{}) : fn(uint64_t{});
  }
}

// out[k] = before op in[0] op ... op in[k]; with `reverse`, from the end.
template <class Op, typename T>
void ScanLine(const T* in, int64_t n, bool reverse, T before, T* out) {
  if constexpr (std::is_same_v<Op, Plus<T>>) {
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

// Lines side by side.
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

// One line by all workers. Integers wrap, so any order of operations gives the
// same: first what each part comes to, then each part from what is before it.
template <class Op, typename T>
void ScanLongLine(const T* in, int64_t n, bool reverse, T* out,
                  const Workers& workers) {
  const int64_t parts = 4 * workers.threads;
  const auto begin_of = [&](int64_t part) { return part * n / parts; };
  // Of each part; one more of nothing, for the part that comes first.
  std::vector<T> totals(parts + 1, Op::kIdentity);
  T* const total_of = totals.data() + (reverse ? 0 : 1);
  workers.run(parts, [&](int64_t part) {
    T total = Op::kIdentity;
    for (int64_t i = begin_of(part); i < begin_of(part + 1); ++i) {
      total = Op::Apply(total, in[i]);
    }
    total_of[part] = total;
  });
  ScanLine<Op>(totals.data(), parts + 1, reverse, Op::kIdentity, totals.data());
  T* const before = totals.data() + (reverse ? 1 : 0);
  workers.run(parts, [&](int64_t part) {
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

void Run(const CumulativeProblem& p, const Task& task) {
  const char* in = static_cast<const char*>(p.in) + task.offset * p.width;
  char* out = static_cast<char*>(p.out) + task.offset * p.width;
  if (IsFloat(p.kind)) {
    return ScanFloatLines({p.kind, p.op == CumulativeOp::kProduct, in, out,
                           p.length, p.inner, task.lines});
  }
  VisitInteger(p, [&](auto zero) {
    using T = decltype(zero);
    RunIntegers(p, reinterpret_cast<const T*>(in), task.lines,
                reinterpret_cast<T*>(out));
  });
}

void RunLongLine(const CumulativeProblem& p, const Workers& workers) {
  VisitInteger(p, [&](auto zero) {
    using T = decltype(zero);
    VisitOp<T>(p.op, [&](auto op) {
      ScanLongLine<decltype(op)>(static_cast<const T*>(p.in), p.length,
                                 p.reverse, static_cast<T*>(p.out), workers);
    });
  });
}

}  // namespace

void Cumulative(const CumulativeProblem& p, const Workers& workers) {
  if (p.outer == 0 || p.length == 0 || p.inner == 0) return;
  const int64_t tasks = TaskCount(p);
  // Another thread pays from so many bytes on, read and written.
  constexpr int64_t kMinBytes = int64_t{1} << 18;
  const int64_t bytes = p.outer * p.length * p.inner * p.width * 2;
  // A line is read twice then, and a sum takes no longer than reading does.
  const int64_t min_line = p.op == CumulativeOp::kSum ? 32 : 4;
  if (p.outer == 1 && p.inner == 1 && !IsFloat(p.kind) && workers.threads > 1 &&
      bytes >= min_line * kMinBytes) {
    return RunLongLine(p, workers);
  }
  const int64_t parts =
      workers.threads < 2
          ? 1
          : std::max<int64_t>(
                std::min({bytes / kMinBytes, 4 * workers.threads, tasks}), 1);
  workers.run(parts, [&](int64_t part) {
    const int64_t end = (part + 1) * tasks / parts;
    for (int64_t i = part * tasks / parts; i < end; ++i) Run(p, TaskAt(p, i));
  });
}

}  // namespace xla_ffi_kit
