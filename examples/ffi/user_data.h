// The type that examples.tag reads from a call's context.

#ifndef EXAMPLES_FFI_USER_DATA_H_
#define EXAMPLES_FFI_USER_DATA_H_

#include <cstdint>

#include "xla/ffi/api/ffi.h"

namespace ffi_examples {

struct RequestTag {
  static xla::ffi::TypeId id;

  int64_t tag;
};

}  // namespace ffi_examples

#endif  // EXAMPLES_FFI_USER_DATA_H_
