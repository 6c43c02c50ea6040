#include "xla_ffi/ops/modular_add/modular_add_handler.h"

#include <algorithm>
#include <cstdint>

#include "xla_ffi/core/call.h"
#include "xla_ffi/core/handler.h"
#include "xla_ffi/ops/modular_add/modular_add.h"
#include "xla_ffi/ops/modular_add/modular_add_checks.h"

namespace xla_ffi_kit::modular_add_internal {
namespace {

namespace ffi = ::xla::ffi;

// Adds the elements [begin, end) of all rows, counted through, row by row.
template <typename T>
void AddRange(const T* b, int64_t n, const T* c, int64_t m, int64_t begin,
              int64_t end, T* a) {
  for (int64_t row = begin / m; row * m < end; ++row) {
    const int64_t first = row * m;
    ModularAdd(b + row * n, n, c + first, std::max<int64_t>(begin - first, 0),
               std::min(end - first, m), a + first);
  }
}

ffi::Error Run(const Call& call, const Executor& executor) {
  XLA_FFI_KIT_RETURN_IF_ERROR(CheckModularAdd(call));
  return call.Dispatch(NumberTypes(), 0, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const ffi::AnyBuffer c = call.operand(1);
    const int64_t n = call.operand(0).dimensions().back(),
                  m = c.dimensions().back();
    const auto *left = call.In<T>(0), *right = call.In<T>(1);
    auto* out = call.Out<T>(0);
    AdviseHugePages(out, SizeBytes(c));
    ParallelFor(executor, ElementCount(c), 2 * sizeof(T),
                [&](int64_t begin, int64_t end) noexcept {
                  AddRange(left, n, right, m, begin, end, out);
                });
    return ffi::Error();
  });
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(XlaFfiKitModularAddCpu,
                              (Checked<kModularAdd, Run>), BindCall());
XLA_FFI_KIT_DEFINE_SIGNATURE(XlaFfiKitModularAddCpu, kModularAdd);

}  // namespace xla_ffi_kit::modular_add_internal
