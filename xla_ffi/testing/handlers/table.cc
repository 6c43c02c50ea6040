// Compiled once for each library that is tested, with
// XLA_FFI_KIT_HANDLER_TABLE: its function that gives its table.

#include "xla_ffi/core/handler_table.h"

extern "C" const XlaFfiKit_HandlerTable* XLA_FFI_KIT_HANDLER_TABLE();

namespace xla_ffi_kit::testing {

const XlaFfiKit_HandlerTable& TableUnderTest();
const XlaFfiKit_HandlerTable& TableUnderTest() {
  return *XLA_FFI_KIT_HANDLER_TABLE();
}

}  // namespace xla_ffi_kit::testing
