#include "accelerate/kernels/cumulative/float_lines.h"

#include <algorithm>
#include <cstdint>

#include "xla_ffi/core/half.h"
#include "xla_ffi/core/simd_targets.h"

// Compiles the rest of this file once per instruction set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "accelerate/kernels/cumulative/float_lines.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// Must come after foreach_target.h.
#include "accelerate/kernels/cumulative/float_scan-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace xla_ffi_accelerate::cumulative {
namespace HWY_NAMESPACE {

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
