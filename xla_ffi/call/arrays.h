// Calls of functions that take whole arrays: see XlaFfiKit_ArraysFn.

#ifndef XLA_FFI_CALL_ARRAYS_H_
#define XLA_FFI_CALL_ARRAYS_H_

#include "xla/ffi/api/ffi.h"
#include "xla_ffi/call/buffers.h"
#include "xla_ffi/call/functions.h"

namespace xla_ffi_kit::call {

// Checks a call and makes it. Among the attributes are `values`, if the
// function has any: for each, in the order of its parameters, its dtype, its
// number of elements, how many words of 8 bytes they take, and these words.
xla::ffi::Error CallWithArrays(const Function& function, const Buffers& buffers,
                               const xla::ffi::Dictionary& attributes);

}  // namespace xla_ffi_kit::call

#endif  // XLA_FFI_CALL_ARRAYS_H_
