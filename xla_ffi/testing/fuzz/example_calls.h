// A call that succeeds, of each handler that no simple frame would reach: its
// attributes are arrays, or its buffers have shapes of their own. The fuzzer
// changes them.

#ifndef XLA_FFI_TESTING_FUZZ_EXAMPLE_CALLS_H_
#define XLA_FFI_TESTING_FUZZ_EXAMPLE_CALLS_H_

#include <string_view>
#include <vector>

#include "xla/ffi/api/ffi.h"
#include "xla_ffi/testing/attributes.h"
#include "xla_ffi/testing/call_frame.h"

namespace xla_ffi_kit::testing {

struct ExampleCall {
  struct Buffer {
    CallFrame::Dims dims;
    ::xla::ffi::DataType dtype = ::xla::ffi::DataType::F32;
  };

  std::vector<Buffer> operands, results;
  Attributes attributes;
};

// Null if there is none of that custom call target.
const ExampleCall* ExampleCallOf(std::string_view target);

}  // namespace xla_ffi_kit::testing

#endif  // XLA_FFI_TESTING_FUZZ_EXAMPLE_CALLS_H_
