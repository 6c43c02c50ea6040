// The FFI handler of the indices of true elements, on the CPU.
//
// Target xla_ffi_accelerate.nonzero: mask[..., n] -> indices[..., size]
//
// Returns, for each row of the mask, the indices of its first `size` true
// elements in order, followed by `fill` if there are fewer.
//
// mask: pred; indices: s32 or s64, and able to hold n; attributes size, fill:
// s64, and `fill` one of the indices' dtype.
// Errors are INVALID_ARGUMENT.

#ifndef ACCELERATE_KERNELS_NONZERO_NONZERO_HANDLER_H_
#define ACCELERATE_KERNELS_NONZERO_NONZERO_HANDLER_H_

#include "xla/ffi/api/ffi.h"

XLA_FFI_DECLARE_HANDLER_SYMBOL(XlaFfiAccelerateNonzeroCpu);

#endif  // ACCELERATE_KERNELS_NONZERO_NONZERO_HANDLER_H_
