// Checks of the handlers of modular_add that a signature cannot express.

#ifndef XLA_FFI_OPS_MODULAR_ADD_MODULAR_ADD_CHECKS_H_
#define XLA_FFI_OPS_MODULAR_ADD_MODULAR_ADD_CHECKS_H_

#include "xla_ffi/core/call.h"
#include "xla_ffi/core/handler.h"

namespace xla_ffi_kit::modular_add_internal {

inline xla::ffi::Error CheckModularAdd(const Call& call) {
  const Dimensions b = call.operand(0).dimensions(),
                   c = call.operand(1).dimensions();
  if (!(BatchAxes(b) == BatchAxes(c))) {
    return call.Invalid(1, "the batch axes of operand b, shape " + ShapeText(b),
                        "shape " + ShapeText(c));
  }
  // There is nothing to repeat, unless there is nothing to compute.
  if (c.back() == 0) return {};
  return CheckLastAxisNotEmpty({call.operation(), "operand b"},
                               call.operand(0));
}

}  // namespace xla_ffi_kit::modular_add_internal

#endif  // XLA_FFI_OPS_MODULAR_ADD_MODULAR_ADD_CHECKS_H_
