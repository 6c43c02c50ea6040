// The FFI handler of sorting, on the CPU.
//
// Target xla_ffi_accelerate.sort: (operand[..., n]...) -> (sorted[..., n]...)
//
// Sorts the last axis of one or more operands of one shape together, as XLA's
// stable sort with JAX's comparator does: ascending by the first operand,
// equal ones by the second, up to `num_keys`; floats in the order
// -inf < ... < 0 < ... < inf < NaN, where -0.0 equals 0.0 and all NaNs are
// equal. (https://openxla.org/xla/operation_semantics#sort)
//
// Attribute num_keys: s64, from 1 to the number of operands. Keys: pred, s8 to
// s64, u8 to u64, f16, bf16, f32, f64; other operands: these, c64 and c128.
// Errors are INVALID_ARGUMENT; RESOURCE_EXHAUSTED when memory is short.

#ifndef ACCELERATE_KERNELS_SORT_SORT_HANDLER_H_
#define ACCELERATE_KERNELS_SORT_SORT_HANDLER_H_

#include "xla/ffi/api/ffi.h"

XLA_FFI_DECLARE_HANDLER_SYMBOL(XlaFfiAccelerateSortCpu);

#endif  // ACCELERATE_KERNELS_SORT_SORT_HANDLER_H_
