#include "accelerate/kernels/cumulative/cumulative.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "accelerate/kernels/cumulative/cumulative_ops.h"
#include "accelerate/kernels/cumulative/float_lines.h"
#include "accelerate/kernels/cumulative/sum_line.h"
#include "xla_ffi/core/dtypes.h"
#include "xla_ffi/core/half.h"
#include "xla_ffi/core/host_scratch.h"
#include "xla_ffi/core/parallel_for.h"

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

// Lines that are columns.
template <class Op, typename T>
void ScanColumns(Op op, const T* in, int64_t n, int64_t stride, int64_t columns,
                 bool reverse, T* out) {
  if (reverse) {
    in += (n - 1) * stride;
    out += (n - 1) * stride;
    stride = -stride;
  }
  for (int64_t j = 0; j < columns; ++j) {
    out[j] = op.Decode(op.Apply(Op::kIdentity, op.Encode(in[j])));
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

// in[0] op ... op in[n - 1], as a code.
template <class Op, typename T>
T TotalOf(Op op, const T* in, int64_t n) {
  T total = Op::kIdentity;
  for (int64_t i = 0; i < n; ++i) total = op.Apply(total, op.Encode(in[i]));
  return total;
}

// One line by all threads. Any order of these operations gives the same
// (integers wrap): first what each part comes to, then each part from what is
// before it. By this thread if there is no memory for as many.
template <class Op, typename T>
void ScanLongLine(const Op& op, const T* in, int64_t n, bool reverse, T* out,
                  const Executor& executor) {
  const int64_t parts = kPartsPerThread * executor.num_threads();
  const auto begin_of = [&](int64_t part) { return PartBegin(n, parts, part); };
  const HostScratch<T> memory(parts);
  T* const totals = memory.get();  // codes
  if (totals == nullptr) {
    return ScanLine(op, in, n, reverse, Op::kIdentity, out);
  }
  ParallelTasks(executor, parts, [&](int64_t part) noexcept {
    const int64_t begin = begin_of(part);
    totals[part] = TotalOf(op, in + begin, begin_of(part + 1) - begin);
  });
  T before = Op::kIdentity;
  for (int64_t k = 0; k < parts; ++k) {
    T& total = totals[reverse ? parts - 1 - k : k];
    before = op.Apply(before, std::exchange(total, before));
  }
  ParallelTasks(executor, parts, [&](int64_t part) noexcept {
    const int64_t begin = begin_of(part);
    ScanLine(op, in + begin, begin_of(part + 1) - begin, reverse, totals[part],
             out + begin);
  });
}

// Apart from its callers, of which there is one for each type of elements.
template <class Op, typename K>
void ScanTask(const CumulativeProblem& p, const Op& op, const Task& task,
              TypeTag<K>) {
  const K* in = static_cast<const K*>(p.in) + task.offset;
  K* out = static_cast<K*>(p.out) + task.offset;
  const int64_t n = p.length;
  if (p.inner > 1) {
    ScanColumns(op, in, n, p.inner, task.lines, p.reverse, out);
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

template <typename T>
void Run(const CumulativeProblem& p, const Task& task) {
  if constexpr (!std::is_integral_v<T>) {
    if (IsRounded<T>(p)) {
      FloatLines<T> lines;
      lines.is_product = p.op == CumulativeOp::kProduct;
      lines.in = static_cast<const T*>(p.in) + task.offset;
      lines.out = static_cast<T*>(p.out) + task.offset;
      lines.length = p.length;
      lines.stride = p.inner;
      lines.count = task.lines;
      return ScanFloatLines(lines);
    }
  }
  VisitOp<T>(
      p, [&](const auto& op) { ScanTask(p, op, task, TypeTag<Scanned<T>>()); });
}

}  // namespace

template <typename T>
void Cumulative(const CumulativeProblem& p, const Executor& executor) {
  if (p.outer == 0 || p.length == 0 || p.inner == 0) return;
  // Minimum bytes per task, read and written, for which another thread is
  // worthwhile.
  constexpr int64_t kMinBytes = int64_t{1} << 18;
  const int64_t bytes = p.outer * p.length * p.inner * 2 * sizeof(T);
  // A line is read twice then, and a sum takes no longer than reading does.
  const int64_t min_line = p.op == CumulativeOp::kSum ? 32 : 4;
  if (!IsRounded<T>(p) && p.outer == 1 && p.inner == 1 &&
      bytes >= min_line * kMinBytes && executor.num_threads() > 1) {
    using K = Scanned<T>;
    return VisitOp<T>(p, [&](const auto& op) {
      ScanLongLine(op, static_cast<const K*>(p.in), p.length, p.reverse,
                   static_cast<K*>(p.out), executor);
    });
  }
  const int64_t tasks = TaskCount(p);
  ParallelParts(executor, tasks, NumParts(executor, bytes, kMinBytes, tasks),
                [&](int64_t begin, int64_t end) noexcept {
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
