#include "accelerate/kernels/cumulative/float_lines.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "xla_ffi/core/dtypes.h"
#include "xla_ffi/core/half.h"
#include "xla_ffi/core/simd_targets.h"

// Compiles the rest of this file once per instruction set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "accelerate/kernels/cumulative/float_lines.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// Must come after foreach_target.h.
#include "hwy/highway.h"
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

// Lines of at most a block, one after the other: too short for anything that is
// done once a line.
template <typename R>
void ScanShortLines(const R* in, int64_t n, int64_t count, R* out) {
  for (const R* const end = in + count * n; in < end; in += n, out += n) {
    AccumulationType<R> total = 0;
    for (int64_t k = 0; k < n; ++k) {
      total = RoundedOne<R>(total, LoadOne(in + k));
      StoreOne(total, out + k);
    }
  }
}

// Columns of at most a block.
template <typename R>
void ScanShortColumns(const R* in, int64_t n, int64_t stride, int64_t count,
                      R* out) {
  const WideTag<R> d;
  for (int64_t k = 0; k < n; ++k, in += stride, out += stride) {
    ForEachOneVector(d, count, [&](auto access, int64_t j) HWY_ATTR {
      const auto total =
          k == 0 ? hn::Set(d, 0) : access.Load(d, out - stride + j);
      access.Store(ToBeStored<R>(total, access.Load(d, in + j)), d, out + j);
    });
  }
}

template <typename R>
void Scan(const FloatLines<R>& lines) {
  const R* in = lines.in;
  R* out = lines.out;
  const int64_t n = lines.length, stride = lines.stride, count = lines.count;
  const bool is_short = n <= kScanBlock;
  if (stride > 1) {
    if (is_short) return ScanShortColumns(in, n, stride, count, out);
    return ColumnScan<R>(count).Scan(in, n, stride, out);
  }
  if (is_short) return ScanShortLines(in, n, count, out);
  for (int64_t i = 0; i < count; ++i) {
    LineScan<R>().Scan(in + i * n, n, out + i * n);
  }
}

// Returns the value that the chunk at `in` ends with, for as many columns as
// `d` has lanes.
template <typename R, class D, class Access>
HWY_INLINE void ReduceChunk(D d, const Access& access, const R* in,
                            int64_t stride, R* before_last, R* last, R* total) {
  // Blocks do not depend on each other: several at a time hide the latency of
  // the operations.
  constexpr int64_t kChains = 4;
  const auto identity = hn::Set(d, 0);
  auto outer = identity, before = identity, inner = identity;
  for (int64_t i = 0; i < kScanBlock; ++i) {
    inner = identity;
    before = outer;
    for (int64_t j = 0; j < kScanBlock; j += kChains) {
      hn::Vec<D> totals[kChains] = {identity, identity, identity, identity};
      for (int64_t k = 0; k < kScanBlock; ++k, in += stride) {
        for (int64_t c = 0; c < kChains; ++c) {
          totals[c] = Rounded<R>(totals[c],
                                 access.Load(d, in + c * kScanBlock * stride));
        }
      }
      in += (kChains - 1) * kScanBlock * stride;
      for (const auto& next : totals) inner = Rounded<R>(inner, next);
    }
    outer = Rounded<R>(outer, inner);
  }
  access.Store(before, d, before_last);
  access.Store(inner, d, last);
  access.Store(outer, d, total);
}

template <typename R>
void ReduceChunks(const FloatLines<R>& lines, int64_t begin, int64_t end,
                  const ChunkEnds<R>& ends) {
  const WideTag<R> d;
  const int64_t count = lines.count;
  const R* in = lines.in + begin * kScanChunk * lines.stride;
  for (int64_t i = begin; i < end; ++i, in += kScanChunk * lines.stride) {
    const auto reduce = [&](auto tag, const auto& access, int64_t j) HWY_ATTR {
      const int64_t at = i * count + j;
      ReduceChunk(tag, access, in + j, lines.stride, ends.before_last + at,
                  ends.last + at, ends.total + at);
    };
    if (count < static_cast<int64_t>(hn::Lanes(d))) {
      for (int64_t j = 0; j < count; ++j) reduce(OneTag<R>(), WholeVector(), j);
    } else {
      ForEachOneVector(d, count, [&](const auto& access, int64_t j) HWY_ATTR {
        reduce(d, access, j);
      });
    }
  }
}

// Makes `scan` begin with chunk `i`, as it would be after those before it.
template <typename R, class Scan>
void SetBeforeChunk(int64_t count, int64_t i, const ChunkEnds<R>& ends,
                    Scan* scan) {
  using Wide = AccumulationType<R>;
  // After a chunk; there is none before the first.
  const auto result = [&](int64_t chunk, int64_t j) -> Wide {
    return chunk < 0 ? Wide{0} : LoadOne(ends.results + chunk * count + j);
  };
  for (int64_t j = 0; j < count && i > 0; ++j) {
    const int64_t at = (i - 1) * count + j;
    const Wide before = result(i - 2, j);
    scan->SetBefore(2, j, result(i - 1, j));
    scan->SetBefore(1, j, RoundedOne<R>(LoadOne(ends.total + at), before));
    scan->SetBefore(
        0, j,
        RoundedOne<R>(LoadOne(ends.last + at),
                      RoundedOne<R>(LoadOne(ends.before_last + at), before)));
  }
}

template <typename R>
void ScanChunks(const FloatLines<R>& lines, int64_t begin, int64_t end,
                const ChunkEnds<R>& ends) {
  for (int64_t i = begin; i < end; ++i) {
    const int64_t first = i * kScanChunk, at = first * lines.stride;
    const int64_t n = std::min(kScanChunk, lines.length - first);
    if (lines.stride > 1) {
      ColumnScan<R> scan(lines.count);
      SetBeforeChunk(lines.count, i, ends, &scan);
      scan.Scan(lines.in + at, n, lines.stride, lines.out + at);
    } else {
      LineScan<R> scan;
      SetBeforeChunk(lines.count, i, ends, &scan);
      scan.Scan(lines.in + at, n, lines.out + at);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace xla_ffi_accelerate::cumulative
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace xla_ffi_accelerate::cumulative {

template <typename R>
void ScanFloatLines(const FloatLines<R>& lines) {
  HWY_EXPORT_T(Table, Scan<R>);
  HWY_DYNAMIC_DISPATCH_T(Table)(lines);
}

template <typename R>
void ReduceFloatChunks(const FloatLines<R>& lines, int64_t begin, int64_t end,
                       const ChunkEnds<R>& ends) {
  HWY_EXPORT_T(Table, ReduceChunks<R>);
  HWY_DYNAMIC_DISPATCH_T(Table)(lines, begin, end, ends);
}

template <typename R>
void ScanFloatChunks(const FloatLines<R>& lines, int64_t begin, int64_t end,
                     const ChunkEnds<R>& ends) {
  HWY_EXPORT_T(Table, ScanChunks<R>);
  HWY_DYNAMIC_DISPATCH_T(Table)(lines, begin, end, ends);
}

#define XLA_FFI_KIT_INSTANTIATE(R)                                        \
  template void ScanFloatLines(const FloatLines<R>&);                     \
  template void ReduceFloatChunks(const FloatLines<R>&, int64_t, int64_t, \
                                  const ChunkEnds<R>&);                   \
  template void ScanFloatChunks(const FloatLines<R>&, int64_t, int64_t,   \
                                const ChunkEnds<R>&)
XLA_FFI_KIT_INSTANTIATE(Float16);
XLA_FFI_KIT_INSTANTIATE(BFloat16);
XLA_FFI_KIT_INSTANTIATE(float);
XLA_FFI_KIT_INSTANTIATE(double);
#undef XLA_FFI_KIT_INSTANTIATE

}  // namespace xla_ffi_accelerate::cumulative

#endif  // HWY_ONCE
