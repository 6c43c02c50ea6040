#include "xla_ffi/ops/cumulative/cumulative.h"

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "xla_ffi/ops/cumulative/float_scan.h"

namespace xla_ffi_kit {
namespace {

// Lines side by side are worked on so many at a time.
constexpr int64_t kColumns = 64;

// One of them, or a line by itself: [0, length) in steps of `stride`.
struct Task {
  int64_t offset;
  int64_t columns;
};

// The type that integers are added and multiplied in: at least as wide as int,
// and unsigned, so that they wrap.
template <typename T>
using Wrapping = std::common_type_t<std::make_unsigned_t<T>, unsigned>;

template <CumulativeOp kOp, typename T>
T Apply(T a, T b) {
  using U = Wrapping<T>;
  switch (kOp) {
    case CumulativeOp::kSum:
      return static_cast<T>(static_cast<U>(a) + static_cast<U>(b));
    case CumulativeOp::kProduct:
      return static_cast<T>(static_cast<U>(a) * static_cast<U>(b));
    case CumulativeOp::kMax:
      return std::max(a, b);
    default:
      return std::min(a, b);
  }
}

// Calls fn with the operation as a constant.
template <class Fn>
void VisitOp(CumulativeOp op, const Fn& fn) {
  using Op = CumulativeOp;
  switch (op) {
    case Op::kSum:
      return fn(std::integral_constant<Op, Op::kSum>());
    case Op::kProduct:
      return fn(std::integral_constant<Op, Op::kProduct>());
    case Op::kMax:
      return fn(std::integral_constant<Op, Op::kMax>());
    default:
      return fn(std::integral_constant<Op, Op::kMin>());
  }
}

// Calls fn with a zero of the elements' type. Integers only.
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

template <CumulativeOp kOp, typename T>
void ScanIntegers(const T* in, int64_t n, int64_t stride, int64_t columns,
                  bool reverse, T* out) {
  if (reverse) {
    in += (n - 1) * stride;
    out += (n - 1) * stride;
    stride = -stride;
  }
  if (columns == 1) {
    T total = *in;
    *out = total;
    for (int64_t k = 1; k < n; ++k) {
      total = Apply<kOp>(total, in[k * stride]);
      out[k * stride] = total;
    }
    return;
  }
  std::copy(in, in + columns, out);
  for (int64_t k = 1; k < n; ++k) {
    in += stride;
    const T* before = out;
    out += stride;
    for (int64_t j = 0; j < columns; ++j) {
      out[j] = Apply<kOp>(before[j], in[j]);
    }
  }
}

template <typename T>
void RunIntegers(const CumulativeProblem& p, const Task& task) {
  const T* in = static_cast<const T*>(p.in) + task.offset;
  T* out = static_cast<T*>(p.out) + task.offset;
  VisitOp(p.op, [&](auto op) {
    ScanIntegers<op>(in, p.length, p.inner, task.columns, p.reverse, out);
  });
}

// One line by all workers. Integers wrap, so any order of operations gives the
// same: first what each part comes to, then each part from what is before it.
template <CumulativeOp kOp, typename T>
void ScanLongLine(const T* in, int64_t n, bool reverse, T* out,
                  const Workers& workers) {
  const int64_t parts = 4 * workers.threads;
  std::vector<T> totals(parts);
  const auto begin_of = [&](int64_t part) { return part * n / parts; };
  workers.run(parts, [&](int64_t part) {
    T total = in[begin_of(part)];
    for (int64_t i = begin_of(part) + 1; i < begin_of(part + 1); ++i) {
      total = Apply<kOp>(total, in[i]);
    }
    totals[part] = total;
  });
  ScanIntegers<kOp, T>(totals.data(), parts, 1, 1, reverse, totals.data());
  workers.run(parts, [&](int64_t part) {
    const int64_t before = reverse ? part + 1 : part - 1;
    const bool is_first = before < 0 || before == parts;
    const int64_t count = begin_of(part + 1) - begin_of(part);
    const int64_t step = reverse ? -1 : 1;
    const int64_t first = reverse ? begin_of(part + 1) - 1 : begin_of(part);
    T total = is_first ? in[first] : Apply<kOp>(totals[before], in[first]);
    out[first] = total;
    for (int64_t k = 1; k < count; ++k) {
      total = Apply<kOp>(total, in[first + k * step]);
      out[first + k * step] = total;
    }
  });
}

template <typename Op, typename T>
void ScanFloats(const T* in, int64_t n, int64_t stride, int64_t columns,
                T* out) {
  if (stride == 1) return LineScan<Op, T>().Scan(in, n, out);
  static_assert(ColumnScan<Op, T>::kColumns == kColumns);
  ColumnScan<Op, T>(columns).Scan(in, n, stride, out);
}

template <typename T>
void RunFloats(const CumulativeProblem& p, const Task& task) {
  const T* in = static_cast<const T*>(p.in) + task.offset;
  T* out = static_cast<T*>(p.out) + task.offset;
  if (p.op == CumulativeOp::kSum) {
    ScanFloats<Plus<T>>(in, p.length, p.inner, task.columns, out);
  } else {
    ScanFloats<Times<T>>(in, p.length, p.inner, task.columns, out);
  }
}

void Run(const CumulativeProblem& p, const Task& task) {
  if (p.kind == KeyKind::kF32) return RunFloats<float>(p, task);
  if (p.kind == KeyKind::kF64) return RunFloats<double>(p, task);
  VisitInteger(p, [&](auto zero) { RunIntegers<decltype(zero)>(p, task); });
}

void RunLongLine(const CumulativeProblem& p, const Workers& workers) {
  VisitInteger(p, [&](auto zero) {
    using T = decltype(zero);
    VisitOp(p.op, [&](auto op) {
      ScanLongLine<op>(static_cast<const T*>(p.in), p.length, p.reverse,
                       static_cast<T*>(p.out), workers);
    });
  });
}

}  // namespace

void Cumulative(const CumulativeProblem& p, const Workers& workers) {
  if (p.outer == 0 || p.length == 0 || p.inner == 0) return;
  const int64_t tiles = (p.inner + kColumns - 1) / kColumns;
  const int64_t tasks = p.outer * tiles;
  // Another thread pays from so many bytes on, read and written.
  constexpr int64_t kMinBytes = int64_t{1} << 18;
  const int64_t bytes = p.outer * p.length * p.inner * p.width * 2;
  const bool is_float = p.kind == KeyKind::kF32 || p.kind == KeyKind::kF64;
  if (tasks == 1 && p.inner == 1 && !is_float && workers.threads > 1 &&
      bytes >= 4 * kMinBytes) {
    return RunLongLine(p, workers);
  }
  const int64_t parts =
      workers.threads < 2
          ? 1
          : std::max<int64_t>(
                std::min({bytes / kMinBytes, 4 * workers.threads, tasks}), 1);
  workers.run(parts, [&](int64_t part) {
    const int64_t end = (part + 1) * tasks / parts;
    for (int64_t i = part * tasks / parts; i < end; ++i) {
      const int64_t column = i % tiles * kColumns;
      Run(p, {i / tiles * p.length * p.inner + column,
              std::min(kColumns, p.inner - column)});
    }
  });
}

}  // namespace xla_ffi_kit
