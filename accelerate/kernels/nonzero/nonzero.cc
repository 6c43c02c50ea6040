#include "accelerate/kernels/nonzero/nonzero.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <string>

#include "xla_ffi/core/handler.h"
#include "xla_ffi/core/lines.h"
#include "xla_ffi/core/simd_targets.h"

// Compiles the rest of this file once per instruction set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "accelerate/kernels/nonzero/nonzero.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// Must come after foreach_target.h.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace xla_ffi_accelerate::nonzero {
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
}  // namespace xla_ffi_accelerate::nonzero
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace xla_ffi_accelerate::nonzero {
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

// Handles one row by all threads. They count first, so that each part of the
// row knows where its indices go. This thread does it alone if memory is short.
template <typename Index>
void NonzeroSharedRow(const uint8_t* mask, int64_t n, int64_t size, Index fill,
                      Index* indices, int64_t parts, const Executor& executor) {
  const HostScratch<int64_t> memory(parts + 1);
  int64_t* const ends = memory.get();  // of a part's indices
  if (ends == nullptr) return NonzeroRow(mask, n, size, fill, indices);
  ends[0] = 0;
  ReduceThenApply(
      executor, n, parts,
      [&](int64_t part, int64_t begin, int64_t end) noexcept {
        ends[part + 1] =
            HWY_DYNAMIC_DISPATCH(CountTrueIn)(mask + begin, end - begin);
      },
      [&] { std::partial_sum(ends, ends + parts + 1, ends); },
      [&](int64_t part, int64_t begin, int64_t end) noexcept {
        const int64_t count = std::min(ends[parts], size);
        // Each part fills its share of what is left over, too.
        const auto share = [&](int64_t i) {
          return indices + count + PartBegin(size - count, parts, i);
        };
        std::fill(share(part), share(part + 1), fill);
        const int64_t first = std::min(ends[part], size);
        WriteIndices(mask, begin, end, std::min(ends[part + 1], size) - first,
                     indices + first);
      });
}

}  // namespace

template <typename Index>
HWY_NOINLINE void Nonzero(const NonzeroProblem<Index>& p,
                          const Executor& executor) {
  if (p.rows == 0 || p.size == 0) return;
  const LineWork work = {p.rows, p.length + p.size, /*element_ns=*/0.1,
                         /*shared_ns=*/0.15};
  const LinePlan plan = PlanLines(executor, work);
  ForEachLine(
      executor, p.rows, plan,
      [&](int64_t begin, int64_t end) noexcept {
        for (int64_t row = begin; row < end; ++row) {
          NonzeroRow(p.mask + row * p.length, p.length, p.size, p.fill,
                     p.indices + row * p.size);
        }
      },
      [&](int64_t row) {
        NonzeroSharedRow(p.mask + row * p.length, p.length, p.size, p.fill,
                         p.indices + row * p.size, plan.parts, executor);
      });
}

namespace {

namespace ffi = ::xla::ffi;

// Whether 32 bits hold every index and `fill`.
ffi::Error CheckFits(const NonzeroCall& call, int64_t length) {
  if (length > std::numeric_limits<int32_t>::max()) {
    return call.Invalid<indices>("dtype s64 for a row of 2^31 elements or more",
                                 "dtype s32");
  }
  const int64_t value = call.get<fill>();
  if (value == static_cast<int32_t>(value)) return {};
  return call.Invalid<fill>("a number of 32 bits", std::to_string(value));
}

ffi::Error Run(const NonzeroCall& call, const Executor& executor) {
  const BatchShape shape = SplitLastAxis(call.get<mask>().dims());
  return call.Dispatch<indices>([&](auto tag) -> ffi::Error {
    using Index = typename decltype(tag)::type;
    if (sizeof(Index) == sizeof(int32_t)) {
      XLA_FFI_KIT_RETURN_IF_ERROR(CheckFits(call, shape.length));
    }
    NonzeroProblem<Index> problem;
    problem.rows = shape.rows;
    problem.length = shape.length;
    problem.size = call.get<size>();
    problem.fill = static_cast<Index>(call.get<fill>());
    problem.mask = static_cast<const uint8_t*>(call.get<mask>().data());
    problem.indices = call.get<indices>().as(tag);
    Nonzero(problem, executor);
    return {};
  });
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(XlaFfiAccelerateNonzeroCpu, Checked<Run>,
                              BindCall<Run>());
XLA_FFI_KIT_DEFINE_SIGNATURE(XlaFfiAccelerateNonzeroCpu, NonzeroCall);

}  // namespace xla_ffi_accelerate::nonzero

#endif  // HWY_ONCE
