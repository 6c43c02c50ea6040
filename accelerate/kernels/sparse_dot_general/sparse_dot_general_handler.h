// The FFI handlers of products of sparse matrices and dense ones, on the CPU.
//
// Target xla_ffi_accelerate.bcoo_dot_general: data[b, e], indices[b, e, 2],
// rhs[b, k, n] -> out[b, m, n]. The element data[e] is in the row
// indices[e, 1 - contracting] and the column indices[e, contracting].
//
// Target xla_ffi_accelerate.bcsr_dot_general: data[b, e], indices[b, e],
// indptr[b, m + 1], rhs[b, k, n] -> out[b, m, n]. Row i has the elements from
// indptr[i] up to indptr[i + 1], each in the column that indices has.
//
// A b of 1 is the same matrix for all of the result's. Products are rounded,
// and added in the order of the elements. What indices out of range are is said
// in sparse_dot_general.h.
//
// data, rhs, out: f32 or f64; indices, indptr: s32 or s64; attribute
// contracting: s64, 0 or 1. Errors are INVALID_ARGUMENT.

#ifndef ACCELERATE_KERNELS_SPARSE_DOT_GENERAL_SPARSE_DOT_GENERAL_HANDLER_H_
#define ACCELERATE_KERNELS_SPARSE_DOT_GENERAL_SPARSE_DOT_GENERAL_HANDLER_H_

#include "xla/ffi/api/ffi.h"

XLA_FFI_DECLARE_HANDLER_SYMBOL(XlaFfiAccelerateBcooDotGeneralCpu);
XLA_FFI_DECLARE_HANDLER_SYMBOL(XlaFfiAccelerateBcsrDotGeneralCpu);

#endif  // ACCELERATE_KERNELS_SPARSE_DOT_GENERAL_SPARSE_DOT_GENERAL_HANDLER_H_
