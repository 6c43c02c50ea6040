#include "xla_ffi/ops/modular_add/modular_add.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "xla_ffi/core/handler.h"
#include "xla_ffi/core/simd_targets.h"

// Compiles the rest of this file once per instruction set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "xla_ffi/ops/modular_add/modular_add.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// Must come after foreach_target.h.
#include "hwy/highway.h"
#include "xla_ffi/core/simd_float-inl.h"

HWY_BEFORE_NAMESPACE();
namespace xla_ffi_kit::modular_add {
namespace HWY_NAMESPACE {

using xla_ffi_kit::HWY_NAMESPACE::ForEachVector;
using xla_ffi_kit::HWY_NAMESPACE::WideTag;

template <typename R>
struct AddBody {
  const R* b;
  const R* c;
  R* a;

  template <class Access>
  HWY_INLINE void operator()(Access access, size_t i) const {
    const WideTag<R> d;
    access.Store(Add(access.Load(d, b + i), access.Load(d, c + i)), d, a + i);
  }
};

// a[i] = b[i % n] + c[i] for begin <= i < end, in whole runs of b, so that the
// inner loop has no remainder in it.
template <typename R>
void AddRuns(const R* b, int64_t n, const R* c, int64_t begin, int64_t end,
             R* a) {
  // A short b is repeated first: its runs would be shorter than the loop's
  // vectors. To a quarter of the range at most, so that repeating costs little
  // beside adding, and within 4 KiB of stack, which stay in the cache. Aligned:
  // else every vector of AVX-512 is read from two cache lines.
  constexpr int64_t kRepeated = 4096 / sizeof(R);
  HWY_ALIGN R repeated[kRepeated];
  const int64_t most = std::min(kRepeated, (end - begin) / 4);
  if (2 * n <= most) {
    std::copy_n(b, n, repeated);
    b = repeated;
    for (; 2 * n <= most; n *= 2) std::copy_n(b, n, repeated + n);
  }
  for (int64_t i = begin; i < end;) {
    const int64_t offset = i % n;
    const int64_t run = std::min(n - offset, end - i);
    const AddBody<R> body = {b + offset, c + i, a + i};
    ForEachVector(WideTag<R>(), static_cast<size_t>(run), body);
    i += run;
  }
}

// Adds the elements [begin, end) of all rows of m, counted through.
template <typename R>
void AddRows(const R* b, int64_t n, const R* c, int64_t m, int64_t begin,
             int64_t end, R* a) {
  for (int64_t row = begin / m; row * m < end; ++row) {
    const int64_t first = row * m;
    AddRuns(b + row * n, n, c + first, std::max<int64_t>(begin - first, 0),
            std::min(end - first, m), a + first);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace xla_ffi_kit::modular_add
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace xla_ffi_kit::modular_add {
namespace {

namespace ffi = ::xla::ffi;

ffi::Error Run(const ModularAddCall& call, const Executor& executor) {
  XLA_FFI_KIT_RETURN_IF_ERROR(CheckPeriod(call));
  if (call.get<c>().count() == 0) return {};
  return call.Dispatch<b>([&](auto tag) {
    using T = typename decltype(tag)::type;
    using R = Addend<T>;
    constexpr int64_t k = kComponents<T>;
    const int64_t n = k * call.get<b>().dims().back(),
                  m = k * call.get<c>().dims().back();
    const auto* left = static_cast<const R*>(call.get<b>().data());
    const auto* right = static_cast<const R*>(call.get<c>().data());
    auto* out = static_cast<R*>(call.get<a>().data());
    HWY_EXPORT_T(Table, AddRows<R>);
    const auto add = HWY_DYNAMIC_POINTER_T(Table);
    ParallelFor(executor, call.get<c>().count(), 2 * sizeof(T),
                [&](int64_t begin, int64_t end) noexcept {
                  add(left, n, right, m, k * begin, k * end, out);
                });
    return ffi::Error();
  });
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(XlaFfiKitModularAddCpu, Checked<Run>,
                              BindCall<Run>());
XLA_FFI_KIT_DEFINE_SIGNATURE(XlaFfiKitModularAddCpu, ModularAddCall);

}  // namespace xla_ffi_kit::modular_add

#endif  // HWY_ONCE
