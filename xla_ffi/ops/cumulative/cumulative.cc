#include "xla_ffi/ops/cumulative/cumulative.h"

#include <algorithm>
#include <cstdint>
#include <type_traits>

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
  const auto scan = [&](auto function) {
    function(in, p.length, p.inner, task.columns, p.reverse, out);
  };
  switch (p.op) {
    case CumulativeOp::kSum:
      return scan(ScanIntegers<CumulativeOp::kSum, T>);
    case CumulativeOp::kProduct:
      return scan(ScanIntegers<CumulativeOp::kProduct, T>);
    case CumulativeOp::kMax:
      return scan(ScanIntegers<CumulativeOp::kMax, T>);
    default:
      return scan(ScanIntegers<CumulativeOp::kMin, T>);
  }
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
  const bool is_signed = p.kind == KeyKind::kSigned;
  switch (p.width) {
    case 1:
      return is_signed ? RunIntegers<int8_t>(p, task)
                       : RunIntegers<uint8_t>(p, task);
    case 2:
      return is_signed ? RunIntegers<int16_t>(p, task)
                       : RunIntegers<uint16_t>(p, task);
    case 4:
      return is_signed ? RunIntegers<int32_t>(p, task)
                       : RunIntegers<uint32_t>(p, task);
    default:
      return is_signed ? RunIntegers<int64_t>(p, task)
                       : RunIntegers<uint64_t>(p, task);
  }
}

}  // namespace

void Cumulative(const CumulativeProblem& p, const Workers& workers) {
  if (p.outer == 0 || p.length == 0 || p.inner == 0) return;
  const int64_t tiles = (p.inner + kColumns - 1) / kColumns;
  const int64_t tasks = p.outer * tiles;
  // Another thread pays from so many bytes on, read and written.
  constexpr int64_t kMinBytes = int64_t{1} << 18;
  const int64_t bytes = p.outer * p.length * p.inner * p.width * 2;
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
