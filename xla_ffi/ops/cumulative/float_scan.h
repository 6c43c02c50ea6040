// Cumulative sums and products of floats, rounded as XLA's CPU backend rounds.
//
// XLA makes a reduce-window over everything before an element into a tree: the
// elements in blocks of 16, in each block one after the other; the blocks'
// totals treated like elements, and so on; and to each element of a block the
// result for the blocks before it is added. All levels of that tree advance
// together here, so that an array is read once.
//
// Where two NaNs meet, whose bits remain depends on the order in which a
// compiler gives them to the processor, in XLA's code as in this.

#ifndef XLA_FFI_OPS_CUMULATIVE_FLOAT_SCAN_H_
#define XLA_FFI_OPS_CUMULATIVE_FLOAT_SCAN_H_

#include <algorithm>
#include <array>
#include <cstdint>

#include "xla_ffi/ops/cumulative/cumulative_ops.h"

namespace xla_ffi_kit {

inline constexpr int64_t kScanBlock = 16;
inline constexpr int kScanLevels = 16;  // 16^16 elements

// One line.
template <typename Op, typename T>
class LineScan {
 public:
  LineScan() { before_.fill(Op::kIdentity); }

  void Scan(const T* in, int64_t n, T* out) {
    int64_t i = 0;
    for (; i + kChains * kScanBlock <= n; i += kChains * kScanBlock) {
      // Blocks do not depend on each other: several at a time hide the latency
      // of the additions.
      std::array<T, kChains> total;
      total.fill(Op::kIdentity);
      for (int64_t j = 0; j < kScanBlock; ++j) {
        for (int64_t c = 0; c < kChains; ++c) {
          const int64_t at = i + c * kScanBlock + j;
          values_[c * kScanBlock + j] = total[c] = Op::Apply(total[c], in[at]);
        }
      }
      for (int64_t c = 0; c < kChains; ++c) {
        Write(c * kScanBlock, kScanBlock, out + i + c * kScanBlock);
        before_[0] = Push(1, total[c]);
      }
    }
    for (; i < n; i += kScanBlock) {
      const int64_t count = std::min(kScanBlock, n - i);
      T total = Op::kIdentity;
      for (int64_t j = 0; j < count; ++j) {
        values_[j] = total = Op::Apply(total, in[i + j]);
      }
      Write(0, count, out + i);
      before_[0] = Push(1, total);
    }
  }

 private:
  static constexpr int64_t kChains = 8;

  void Write(int64_t from, int64_t n, T* out) const {
    const T* values = values_.data() + from;
    const T before = before_[0];
    for (int64_t j = 0; j < n; ++j) out[j] = Op::Apply(values[j], before);
  }

  // Takes the next total of a block of the level below; returns the result of
  // all of them so far.
  T Push(int level, T total) {
    T& run = run_[level];
    run = Op::Apply(fill_[level] == 0 ? Op::kIdentity : run, total);
    const T result = Op::Apply(run, before_[level]);
    if (++fill_[level] == kScanBlock) {
      fill_[level] = 0;
      before_[level] = Push(level + 1, run);
    }
    return result;
  }

  std::array<T, kScanLevels> before_, run_ = {};
  std::array<int, kScanLevels> fill_ = {};
  std::array<T, kChains * kScanBlock> values_;
};

// Lines side by side, at most kColumns: element k of line j is at
// [k * stride + j].
template <typename Op, typename T>
class ColumnScan {
 public:
  static constexpr int64_t kColumns = 64;

  explicit ColumnScan(int64_t columns) : columns_(columns) {
    for (auto& line : before_) line.fill(Op::kIdentity);
  }

  void Scan(const T* in, int64_t n, int64_t stride, T* out) {
    for (int64_t k = 0; k < n; ++k, in += stride, out += stride) {
      Push(0, in, out);
    }
  }

 private:
  using Line = std::array<T, kColumns>;

  void Push(int level, const T* totals, T* results) {
    Line& run = run_[level];
    Line& before = before_[level];
    if (fill_[level] == 0) run.fill(Op::kIdentity);
    for (int64_t j = 0; j < columns_; ++j) {
      run[j] = Op::Apply(run[j], totals[j]);
    }
    for (int64_t j = 0; j < columns_; ++j) {
      results[j] = Op::Apply(run[j], before[j]);
    }
    if (++fill_[level] == kScanBlock) {
      fill_[level] = 0;
      Push(level + 1, run.data(), before.data());
    }
  }

  const int64_t columns_;
  std::array<Line, kScanLevels> before_, run_;
  std::array<int, kScanLevels> fill_ = {};
};

}  // namespace xla_ffi_kit

#endif  // XLA_FFI_OPS_CUMULATIVE_FLOAT_SCAN_H_
