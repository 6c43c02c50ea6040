#include "xla_ffi/ops/nonzero/nonzero.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "xla_ffi/core/simd_targets.h"

// Compiles the rest of this file once per instruction set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "xla_ffi/ops/nonzero/nonzero.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// Must come after foreach_target.h.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace xla_ffi_kit {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

int64_t CountTrueIn(const uint8_t* mask, int64_t n) {
  const hn::ScalableTag<uint8_t> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t count = 0, i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto is_true = hn::Ne(hn::LoadU(d, mask + i), hn::Zero(d));
    count += static_cast<int64_t>(hn::CountTrue(d, is_true));
  }
  for (; i < n; ++i) count += mask[i] != 0;
  return count;
}

// Writes the indices of the true elements of mask[begin, end), up to `size` of
// them. Returns how many.
template <typename Index>
int64_t Indices(const uint8_t* mask, int64_t begin, int64_t end, int64_t size,
                Index* indices) {
  const hn::ScalableTag<Index> d;
  const hn::RebindToUnsigned<decltype(d)> unsigned_d;
  const hn::Rebind<uint8_t, decltype(d)> mask_d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto step = hn::Set(d, static_cast<Index>(lanes));
  auto index = hn::Iota(d, static_cast<Index>(begin));
  int64_t count = 0, i = begin;
  // Whole vectors are written, and what is not an index is written over by the
  // next one: no branch, so nothing for a random mask to mispredict.
  for (; i + lanes <= end && count + lanes <= size; i += lanes) {
    const auto words = hn::PromoteTo(unsigned_d, hn::LoadU(mask_d, mask + i));
    const auto is_true = hn::RebindMask(d, hn::Ne(words, hn::Zero(unsigned_d)));
    hn::StoreU(hn::Compress(index, is_true), d, indices + count);
    count += static_cast<int64_t>(hn::CountTrue(d, is_true));
    index = hn::Add(index, step);
  }
  for (; i < end && count < size; ++i) {
    if (mask[i] != 0) indices[count++] = static_cast<Index>(i);
  }
  return count;
}

}  // namespace HWY_NAMESPACE
}  // namespace xla_ffi_kit
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace xla_ffi_kit {
namespace {

HWY_EXPORT(CountTrueIn);

template <typename Index>
int64_t WriteIndices(const uint8_t* mask, int64_t begin, int64_t end,
                     int64_t size, Index* indices) {
  HWY_EXPORT_T(Table, Indices<Index>);
  return HWY_DYNAMIC_DISPATCH_T(Table)(mask, begin, end, size, indices);
}

template <typename Index>
void NonzeroRow(const uint8_t* mask, int64_t n, int64_t size, Index fill,
                Index* indices) {
  const int64_t count = WriteIndices(mask, 0, n, size, indices);
  std::fill(indices + count, indices + size, fill);
}

// One row by all workers. Counted first, so that each part of the row knows
// where its indices go.
template <typename Index>
void NonzeroLongRow(const uint8_t* mask, int64_t n, int64_t size, Index fill,
                    Index* indices, const Workers& workers) {
  const int64_t parts = 4 * workers.threads;
  const auto begin_of = [&](int64_t part) { return part * n / parts; };
  std::vector<int64_t> ends(parts + 1);  // of a part's indices
  workers.run(parts, [&](int64_t part) {
    const int64_t begin = begin_of(part);
    ends[part + 1] = HWY_DYNAMIC_DISPATCH(CountTrueIn)(
        mask + begin, begin_of(part + 1) - begin);
  });
  std::partial_sum(ends.begin(), ends.end(), ends.begin());
  const int64_t count = std::min(ends.back(), size);
  workers.run(parts, [&](int64_t part) {
    // Each part fills its share of what is left over, too.
    const auto share = [&](int64_t i) {
      return indices + count + i * (size - count) / parts;
    };
    std::fill(share(part), share(part + 1), fill);
    const int64_t first = std::min(ends[part], size);
    WriteIndices(mask, begin_of(part), begin_of(part + 1),
                 std::min(ends[part + 1], size) - first, indices + first);
  });
}

}  // namespace

template <typename Index>
void Nonzero(const uint8_t* mask, int64_t rows, int64_t length, int64_t size,
             Index fill, Index* indices, const Workers& workers) {
  if (rows == 0 || size == 0) return;
  // Some 60 microseconds of work: then another thread is worth waking.
  constexpr int64_t kMinElements = 1 << 19;
  if (workers.threads > 1 && rows < 2 * workers.threads &&
      length + size >= 4 * kMinElements) {
    for (int64_t row = 0; row < rows; ++row) {
      NonzeroLongRow(mask + row * length, length, size, fill,
                     indices + row * size, workers);
    }
    return;
  }
  const int64_t parts =
      std::max<int64_t>(std::min({rows * (length + size) / kMinElements, rows,
                                  4 * workers.threads}),
                        1);
  workers.run(parts, [&](int64_t part) {
    const int64_t end = (part + 1) * rows / parts;
    for (int64_t row = part * rows / parts; row < end; ++row) {
      NonzeroRow(mask + row * length, length, size, fill, indices + row * size);
    }
  });
}

template void Nonzero(const uint8_t*, int64_t, int64_t, int64_t, int32_t,
                      int32_t*, const Workers&);
template void Nonzero(const uint8_t*, int64_t, int64_t, int64_t, int64_t,
                      int64_t*, const Workers&);

}  // namespace xla_ffi_kit

#endif  // HWY_ONCE
