// The FFI handler of products of many small matrices, on the CPU.
//
// Target xla_ffi_accelerate.dot_general: lhs, rhs -> out, as
// jax.lax.dot_general and StableHLO's dot_general have it: dimensions of
// `lhs_batch` and `rhs_batch` go together, those of `lhs_contracting` and
// `rhs_contracting` are summed over, and out has the batch dimensions, the
// other ones of lhs and those of rhs.
//
// lhs, rhs, out: f32 or f64. Sums have at most 8 products, and a matrix of the
// result at most 8 rows (of lhs) and 8 columns (of rhs); the batch has any
// size.
//
// Attributes: lhs_batch, rhs_batch, lhs_contracting, rhs_contracting: arrays of
// s64; order: string, how a sum is rounded, one of those of DotOrder in
// dot_general.h: "fma", "multiply_add", "even_odd_fma", "fma_then_zero",
// "multiply_add_then_zero". Errors are INVALID_ARGUMENT.

#ifndef ACCELERATE_KERNELS_DOT_GENERAL_DOT_GENERAL_HANDLER_H_
#define ACCELERATE_KERNELS_DOT_GENERAL_DOT_GENERAL_HANDLER_H_

#include "xla/ffi/api/ffi.h"

XLA_FFI_DECLARE_HANDLER_SYMBOL(XlaFfiAccelerateDotGeneralCpu);

#endif  // ACCELERATE_KERNELS_DOT_GENERAL_DOT_GENERAL_HANDLER_H_
