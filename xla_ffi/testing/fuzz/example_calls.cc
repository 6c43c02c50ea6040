#include "xla_ffi/testing/fuzz/example_calls.h"

#include <string_view>

namespace xla_ffi_kit::testing {

// Simple frames reach all of the kit's own handlers.
const ExampleCall* ExampleCallOf(std::string_view /*target*/) {
  return nullptr;
}

}  // namespace xla_ffi_kit::testing
