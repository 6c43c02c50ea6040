#include "xla_ffi/ops/cumulative/float_lines.h"

#include <cstdint>

#include "xla_ffi/core/half.h"
#include "xla_ffi/core/simd_targets.h"

// Compiles the rest of this file once per instruction set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "xla_ffi/ops/cumulative/float_lines.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// Must come after foreach_target.h.
#include "hwy/highway.h"
#include "xla_ffi/ops/cumulative/float_scan-inl.h"

HWY_BEFORE_NAMESPACE();
namespace xla_ffi_kit {
namespace HWY_NAMESPACE {

// Lines of at most a block, one after the other: too short for anything that is
// done once a line.
template <class Op, typename R>
void ScanShortLines(const R* in, int64_t n, int64_t count, R* out) {
  for (const R* const end = in + count * n; in < end; in += n, out += n) {
    AccumulationType<R> total = Op::kIdentity;
    for (int64_t k = 0; k < n; ++k) {
      total = RoundedOne<Op, R>(total, LoadOne(in + k));
      StoreOne(total, out + k);
    }
  }
}

// Lines of at most a block, side by side.
template <class Op, typename R>
void ScanShortColumns(const R* in, int64_t n, int64_t stride, int64_t count,
                      R* out) {
  const WideTag<R> d;
  for (int64_t k = 0; k < n; ++k, in += stride, out += stride) {
    ForEachOneVector(d, count, [&](auto access, int64_t j) HWY_ATTR {
      const auto total =
          k == 0 ? hn::Set(d, Op::kIdentity) : access.Load(d, out - stride + j);
      access.Store(ToBeStored<Op, R>(total, access.Load(d, in + j)), d,
                   out + j);
    });
  }
}

template <class Op, typename R>
void ScanAs(const FloatLines& lines) {
  const R* in = static_cast<const R*>(lines.in);
  R* out = static_cast<R*>(lines.out);
  const int64_t n = lines.length, stride = lines.stride, count = lines.count;
  const bool is_short = n <= kScanBlock;
  if (stride > 1) {
    if (is_short) return ScanShortColumns<Op>(in, n, stride, count, out);
    return ColumnScan<Op, R>(count).Scan(in, n, stride, out);
  }
  if (is_short) return ScanShortLines<Op>(in, n, count, out);
  for (int64_t i = 0; i < count; ++i) {
    LineScan<Op, R>().Scan(in + i * n, n, out + i * n);
  }
}

template <typename R>
void ScanOf(const FloatLines& lines) {
  lines.is_product ? ScanAs<FloatTimes, R>(lines) : ScanAs<FloatPlus, R>(lines);
}

void Scan(const FloatLines& lines) {
  switch (lines.kind) {
    case KeyKind::kF16:
      return ScanOf<Float16>(lines);
    case KeyKind::kBF16:
      return ScanOf<BFloat16>(lines);
    case KeyKind::kF32:
      return ScanOf<float>(lines);
    default:
      return ScanOf<double>(lines);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace xla_ffi_kit
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace xla_ffi_kit {

HWY_EXPORT(Scan);

void ScanFloatLines(const FloatLines& lines) {
  HWY_DYNAMIC_DISPATCH(Scan)(lines);
}

}  // namespace xla_ffi_kit

#endif  // HWY_ONCE
