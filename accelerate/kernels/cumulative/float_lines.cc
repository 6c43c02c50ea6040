#include "accelerate/kernels/cumulative/float_lines.h"

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

// Columns of at most a block.
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
void ScanAs(const FloatLines<R>& lines) {
  const R* in = lines.in;
  R* out = lines.out;
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
void Scan(const FloatLines<R>& lines) {
  lines.is_product ? ScanAs<FloatMul>(lines) : ScanAs<FloatAdd>(lines);
}

}  // namespace HWY_NAMESPACE
}  // namespace xla_ffi_kit
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace xla_ffi_kit {

template <typename R>
void ScanFloatLines(const FloatLines<R>& lines) {
  HWY_EXPORT_T(Table, Scan<R>);
  HWY_DYNAMIC_DISPATCH_T(Table)(lines);
}

template void ScanFloatLines(const FloatLines<Float16>&);
template void ScanFloatLines(const FloatLines<BFloat16>&);
template void ScanFloatLines(const FloatLines<float>&);
template void ScanFloatLines(const FloatLines<double>&);

}  // namespace xla_ffi_kit

#endif  // HWY_ONCE
