// The scans of float_lines.h, of one line and of columns.
//
// Compiled once per instruction set, as Highway's foreach_target.h does.

#if defined(ACCELERATE_KERNELS_CUMULATIVE_FLOAT_SCAN_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef ACCELERATE_KERNELS_CUMULATIVE_FLOAT_SCAN_INL_H_
#undef ACCELERATE_KERNELS_CUMULATIVE_FLOAT_SCAN_INL_H_
#else
#define ACCELERATE_KERNELS_CUMULATIVE_FLOAT_SCAN_INL_H_
#endif

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "accelerate/kernels/cumulative/float_lines.h"
#include "hwy/highway.h"
#include "xla_ffi/core/dtypes.h"
#include "xla_ffi/core/half.h"
#include "xla_ffi/core/simd_float-inl.h"

HWY_BEFORE_NAMESPACE();
namespace xla_ffi_accelerate::cumulative {

using namespace xla_ffi_kit;  // its types and threads

namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using namespace xla_ffi_kit::HWY_NAMESPACE;  // simd_float-inl.h

inline constexpr int kScanLevels = 16;  // 16^16 elements

// XLA keeps only the sign of a bf16 NaN.
template <typename R, class V>
HWY_INLINE V WithItsNan(V v) {
  if constexpr (std::is_same_v<R, BFloat16>) {
    const hn::DFromV<V> d;
    const hn::RebindToUnsigned<decltype(d)> du;
    const auto nan = hn::BitCast(d, hn::Set(du, 0x7fc00000u));
    return hn::IfThenElse(hn::IsNaN(v), hn::CopySign(nan, v), v);
  } else {
    return v;
  }
}

// a + b, rounded to the elements' type R.
template <typename R, class V>
HWY_INLINE V Rounded(V a, V b) {
  return WithItsNan<R>(RoundTo<R>(hn::Add(a, b)));
}

// The same, for a store that rounds.
template <typename R, class V>
HWY_INLINE V ToBeStored(V a, V b) {
  return WithItsNan<R>(hn::Add(a, b));
}

// An element by itself, as the type it is computed in.
template <typename R>
using OneTag = hn::CappedTag<AccumulationType<R>, 1>;

template <typename R>
HWY_INLINE AccumulationType<R> LoadOne(const R* p) {
  return hn::GetLane(WholeVector().Load(OneTag<R>(), p));
}
template <typename R>
HWY_INLINE void StoreOne(AccumulationType<R> value, R* p) {
  const OneTag<R> d;
  WholeVector().Store(hn::Set(d, value), d, p);
}
template <typename R>
HWY_INLINE AccumulationType<R> RoundedOne(AccumulationType<R> a,
                                          AccumulationType<R> b) {
  const OneTag<R> d;
  const auto v = hn::Add(hn::Set(d, a), hn::Set(d, b));
  if constexpr (std::is_same_v<R, BFloat16>) {
    // No instruction set used here rounds to bf16, and for one number scalar
    // code is faster than vectors.
    const auto rounded = static_cast<float>(BFloat16(hn::GetLane(v)));
    if (rounded == rounded) return rounded;
  }
  return hn::GetLane(WithItsNan<R>(RoundTo<R>(v)));
}

// Calls body(access, i) for the vectors of [0, count).
template <class D, class Body>
HWY_INLINE void ForEachOneVector(D d, int64_t count, const Body& body) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) body(WholeVector(), i);
  if (i < count) body(PartOfVector{static_cast<size_t>(count - i)}, i);
}

// One line.
template <typename R>
class LineScan {
 public:
  LineScan() { before_.fill(0); }

  // Sets the value before a line's first element, at `level`.
  void SetBefore(int level, int64_t /*column*/, AccumulationType<R> before) {
    before_[level] = before;
  }

  void Scan(const R* in, int64_t n, R* out) {
    int64_t i = 0;
    for (; i + kChains * kScanBlock <= n; i += kChains * kScanBlock) {
      // Blocks do not depend on each other: several at a time hide the latency
      // of the operations.
      std::array<Wide, kChains> total;
      total.fill(0);
      for (int64_t j = 0; j < kScanBlock; ++j) {
        HWY_UNROLL(8)  // all: clang keeps bf16's totals in memory otherwise
        for (int64_t c = 0; c < kChains; ++c) {
          total[c] =
              RoundedOne<R>(total[c], LoadOne(in + i + c * kScanBlock + j));
          values_[c * kScanBlock + j] = total[c];
        }
      }
      for (int64_t c = 0; c < kChains; ++c) {
        Write(c * kScanBlock, kScanBlock, out + i + c * kScanBlock);
        before_[0] = Push(1, total[c]);
      }
    }
    for (; i < n; i += kScanBlock) {
      const int64_t count = std::min(kScanBlock, n - i);
      Wide total = 0;
      for (int64_t j = 0; j < count; ++j) {
        values_[j] = total = RoundedOne<R>(total, LoadOne(in + i + j));
      }
      Write(0, count, out + i);
      before_[0] = Push(1, total);
    }
  }

 private:
  using Wide = AccumulationType<R>;
  static constexpr int64_t kChains = 8;

  void Write(int64_t from, int64_t n, R* out) const {
    const WideTag<R> d;
    const Wide* values = values_.data() + from;
    const auto before = hn::Set(d, before_[0]);
    ForEachOneVector(d, n, [&](auto access, int64_t i) HWY_ATTR {
      access.Store(ToBeStored<R>(access.Load(d, values + i), before), d,
                   out + i);
    });
  }

  // Takes the next total of a block of the level below; returns the result of
  // all of them so far. Inline: for level 1, after each block.
  HWY_INLINE Wide Push(int level, Wide total) {
    Wide& run = run_[level];
    run = RoundedOne<R>(fill_[level] == 0 ? Wide{0} : run, total);
    const Wide result = RoundedOne<R>(run, before_[level]);
    if (++fill_[level] == kScanBlock) {
      fill_[level] = 0;
      before_[level] = PushRarely(level + 1, run);
    }
    return result;
  }

  HWY_NOINLINE Wide PushRarely(int level, Wide total) {
    return Push(level, total);
  }

  std::array<Wide, kScanLevels> before_, run_ = {};
  std::array<int, kScanLevels> fill_ = {};
  std::array<Wide, kChains * kScanBlock> values_;
};

// Columns, at most kMaxScanColumns.
template <typename R>
class ColumnScan {
 public:
  explicit ColumnScan(int64_t columns) : columns_(columns) {
    for (auto& line : before_) line.fill(0);
  }

  void SetBefore(int level, int64_t column, AccumulationType<R> before) {
    before_[level][column] = before;
  }

  void Scan(const R* in, int64_t n, int64_t stride, R* out) {
    for (int64_t k = 0; k < n; ++k, in += stride, out += stride) {
      Push(0, in, out);
    }
  }

 private:
  using Wide = AccumulationType<R>;
  using Line = std::array<Wide, kMaxScanColumns>;

  // Elements at level 0, totals of blocks above it.
  template <typename E>
  void Push(int level, const E* totals, E* results) {
    Line& run = run_[level];
    Line& before = before_[level];
    if (fill_[level] == 0) run.fill(0);
    const WideTag<R> d;
    ForEachOneVector(d, columns_, [&](auto access, int64_t j) HWY_ATTR {
      const auto sum = Rounded<R>(access.Load(d, run.data() + j),
                                  access.Load(d, totals + j));
      access.Store(sum, d, run.data() + j);
      access.Store(Rounded<R>(sum, access.Load(d, before.data() + j)), d,
                   results + j);
    });
    if (++fill_[level] == kScanBlock) {
      fill_[level] = 0;
      Push(level + 1, run.data(), before.data());
    }
  }

  const int64_t columns_;
  std::array<Line, kScanLevels> before_, run_;
  std::array<int, kScanLevels> fill_ = {};
};

}  // namespace HWY_NAMESPACE
}  // namespace xla_ffi_accelerate::cumulative
HWY_AFTER_NAMESPACE();

#endif  // include guard, per target
