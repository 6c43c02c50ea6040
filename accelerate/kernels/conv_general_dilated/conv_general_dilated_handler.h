// The FFI handlers of depthwise convolutions, on the CPU.
//
// Target xla_ffi_accelerate.conv_general_dilated:
// base[n, h, w, c], window[p, q, c] -> result[n, y, x, c]
//
// Each channel c convolved with its own window, in two spatial dimensions. A
// sum is begun with 0.0 and made in row-major order of the window; where
// `is_fused` is 1, each product and sum is rounded once if the CPU can.
//
// Target xla_ffi_accelerate.conv_general_dilated_kernel_gradient:
// base[n, h, w, c], window[n, p, q, c] -> result[y, x, c]
//
// The same for windows that each have a batch element, and sums over those too,
// in an order of the kit's own, which is the same with any number of threads.
//
// f32 or f64; attributes, each for h and w: strides, padding (before the first
// element; negative ones leave elements out), base_dilation, window_dilation:
// s64[2], 1 to 2^30, padding -2^30 to 2^30; of the first target also is_fused:
// s64. Spatial dimensions are at most 2^30. Errors are INVALID_ARGUMENT, and
// RESOURCE_EXHAUSTED for want of scratch memory.

#ifndef ACCELERATE_KERNELS_CONV_GENERAL_DILATED_CONV_GENERAL_DILATED_HANDLER_H_
#define ACCELERATE_KERNELS_CONV_GENERAL_DILATED_CONV_GENERAL_DILATED_HANDLER_H_

#include "xla/ffi/api/ffi.h"

XLA_FFI_DECLARE_HANDLER_SYMBOL(XlaFfiAccelerateConvGeneralDilatedCpu);
XLA_FFI_DECLARE_HANDLER_SYMBOL(
    XlaFfiAccelerateConvGeneralDilatedKernelGradientCpu);

#endif  // ACCELERATE_KERNELS_CONV_GENERAL_DILATED_CONV_GENERAL_DILATED_HANDLER_H_
