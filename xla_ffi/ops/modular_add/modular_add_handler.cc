#include "xla_ffi/ops/modular_add/modular_add_handler.h"

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "xla_ffi/core/handler.h"
#include "xla_ffi/ops/modular_add/modular_add.h"
#include "xla_ffi/ops/modular_add/modular_add_checks.h"

namespace xla_ffi_kit {
namespace {

namespace ffi = ::xla::ffi;

constexpr std::string_view kOp = "xla_ffi_kit.modular_add";

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

ffi::Error ModularAddImpl(ffi::ThreadPool pool, ffi::AnyBuffer b,
                          ffi::AnyBuffer c, ffi::Result<ffi::AnyBuffer> a,
                          ffi::Dictionary attributes) {
  XLA_FFI_KIT_RETURN_IF_ERROR(CheckModularAdd(kOp, b, c, *a, attributes));
  return DispatchDtype(
      NumberTypes(), b.element_type(), {kOp, "operand b"},
      [&](auto tag) -> ffi::Error {
        using T = typename decltype(tag)::type;
        const int64_t n = b.dimensions().back(), m = c.dimensions().back();
        const auto* left = static_cast<const T*>(b.untyped_data());
        const auto* right = static_cast<const T*>(c.untyped_data());
        auto* out = static_cast<T*>(a->untyped_data());
        AdviseHugePages(out, SizeBytes(*a));
        ParallelFor(pool, ElementCount(c), 2 * sizeof(T),
                    [&](int64_t begin, int64_t end) noexcept {
                      AddRange(left, n, right, m, begin, end, out);
                    });
        return {};
      });
}

}  // namespace
}  // namespace xla_ffi_kit

XLA_FFI_DEFINE_HANDLER_SYMBOL(XlaFfiKitModularAddCpu,
                              xla_ffi_kit::ModularAddImpl,
                              xla::ffi::Ffi::Bind()
                                  .Ctx<xla::ffi::ThreadPool>()
                                  .Arg<xla::ffi::AnyBuffer>()  // b
                                  .Arg<xla::ffi::AnyBuffer>()  // c
                                  .Ret<xla::ffi::AnyBuffer>()  // a
                                  .Attrs());                   // none
