// Checks that the handlers of modular_add share.

#ifndef XLA_FFI_OPS_MODULAR_ADD_MODULAR_ADD_CHECKS_H_
#define XLA_FFI_OPS_MODULAR_ADD_MODULAR_ADD_CHECKS_H_

#include <string_view>

#include "xla_ffi/core/handler.h"

namespace xla_ffi_kit {

inline xla::ffi::Error CheckModularAdd(std::string_view operation,
                                       xla::ffi::AnyBuffer b,
                                       xla::ffi::AnyBuffer c,
                                       xla::ffi::AnyBuffer a,
                                       const xla::ffi::Dictionary& attributes) {
  const Place where_b = {operation, "operand b"};
  const Place where_c = {operation, "operand c"};
  XLA_FFI_KIT_RETURN_IF_ERROR(CheckRankAtLeast(where_b, b, 1));
  XLA_FFI_KIT_RETURN_IF_ERROR(CheckRankAtLeast(where_c, c, 1));
  XLA_FFI_KIT_RETURN_IF_ERROR(CheckNoAttributes(operation, attributes));
  XLA_FFI_KIT_RETURN_IF_ERROR(CheckData(where_b, b));
  XLA_FFI_KIT_RETURN_IF_ERROR(CheckData(where_c, c));
  XLA_FFI_KIT_RETURN_IF_ERROR(
      CheckDtype(where_c, c, b.element_type(), "like operand b"));
  if (!(BatchAxes(b.dimensions()) == BatchAxes(c.dimensions()))) {
    return InvalidArgument(
        where_c,
        "the batch axes of operand b, shape " + ShapeText(b.dimensions()),
        "shape " + ShapeText(c.dimensions()));
  }
  // There is nothing to repeat, unless there is nothing to compute.
  if (c.dimensions().back() > 0) {
    XLA_FFI_KIT_RETURN_IF_ERROR(CheckLastAxisNotEmpty(where_b, b));
  }
  return CheckLike({operation, "result a"}, a, c, "like operand c");
}

}  // namespace xla_ffi_kit

#endif  // XLA_FFI_OPS_MODULAR_ADD_MODULAR_ADD_CHECKS_H_
