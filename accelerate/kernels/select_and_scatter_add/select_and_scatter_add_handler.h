// The FFI handler of the gradient of max and min pooling, on the CPU.
//
// Target xla_ffi_accelerate.select_and_scatter_add:
// source[n, y, x, c], operand[n, h, w, c] -> result[n, h, w, c]
//
// Adds each element of the source where its window of the operand has its
// largest element (with is_min 1 its smallest); ties, NaNs, padding and the
// order of the sums are as select_and_scatter_add.h has them.
//
// f32 or f64; attributes, each for h and w: window: s64[2], 1 to 2^15; strides:
// s64[2], 1 to 2^30; padding (before the first element): s64[2], 0 to 2^15;
// is_min: s64. Spatial dimensions are at most 2^30. Errors are
// INVALID_ARGUMENT.

#ifndef ACCELERATE_KERNELS_SELECT_AND_SCATTER_ADD_SELECT_AND_SCATTER_ADD_HANDLER_H_
#define ACCELERATE_KERNELS_SELECT_AND_SCATTER_ADD_SELECT_AND_SCATTER_ADD_HANDLER_H_

#include "xla/ffi/api/ffi.h"

XLA_FFI_DECLARE_HANDLER_SYMBOL(XlaFfiAccelerateSelectAndScatterAddCpu);

#endif  // ACCELERATE_KERNELS_SELECT_AND_SCATTER_ADD_SELECT_AND_SCATTER_ADD_HANDLER_H_
