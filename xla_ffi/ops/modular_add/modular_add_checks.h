// Checks that the handlers of modular_add share.

#ifndef XLA_FFI_OPS_MODULAR_ADD_MODULAR_ADD_CHECKS_H_
#define XLA_FFI_OPS_MODULAR_ADD_MODULAR_ADD_CHECKS_H_

#include <string_view>

#include "xla/ffi/api/ffi.h"
#include "xla_ffi/core/attributes.h"
#include "xla_ffi/core/batch_shape.h"
#include "xla_ffi/core/checks.h"

namespace xla_ffi_kit::modular_add_internal {

namespace ffi = ::xla::ffi;

inline constexpr std::string_view kOp = "xla_ffi_kit.modular_add";

inline ffi::Error Check(ffi::AnyBuffer b, ffi::AnyBuffer c, ffi::AnyBuffer a,
                        const ffi::Dictionary& attributes) {
  const Place where_b = {kOp, "operand b"}, where_c = {kOp, "operand c"};
  if (ffi::Error e = CheckRankAtLeast(where_b, b, 1); e.failure()) return e;
  if (ffi::Error e = CheckRankAtLeast(where_c, c, 1); e.failure()) return e;
  ffi::Error e = CheckNoAttributes(kOp, attributes);
  if (e.success()) e = CheckData(where_b, b);
  if (e.success()) e = CheckData(where_c, c);
  if (e.success()) {
    e = CheckDtype(where_c, c, b.element_type(), "like operand b");
  }
  if (e.failure()) return e;
  if (!(BatchAxes(b.dimensions()) == BatchAxes(c.dimensions()))) {
    return InvalidArgument(
        where_c,
        "the batch axes of operand b, shape " + ShapeText(b.dimensions()),
        "shape " + ShapeText(c.dimensions()));
  }
  // There is nothing to repeat, unless there is nothing to compute.
  if (c.dimensions().back() > 0) {
    e = CheckLastAxisNotEmpty(where_b, b);
    if (e.failure()) return e;
  }
  return CheckLike({kOp, "result a"}, a, c, "like operand c");
}

}  // namespace xla_ffi_kit::modular_add_internal

#endif  // XLA_FFI_OPS_MODULAR_ADD_MODULAR_ADD_CHECKS_H_
