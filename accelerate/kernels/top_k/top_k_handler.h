// The FFI handler of the k largest elements, on the CPU.
//
// Target xla_ffi_accelerate.top_k: (x[..., n]) -> (values[..., k], indices[...,
// k])
//
// Returns the k largest elements of each row of x, largest first, and their
// indices. Equal elements come in the order of their indices. Floats are
// ordered by their bits, as XLA's TopK orders them:
// -NaN < -inf < ... < -0.0 < 0.0 < ... < inf < NaN. `k` is the results' last
// axis, at most n.
//
// x: pred, s8 to s64, u8 to u64, f16, bf16, f32, f64; n at most 2^31. values:
// like x; indices: s32. Errors are INVALID_ARGUMENT; RESOURCE_EXHAUSTED when
// memory is short.

#ifndef ACCELERATE_KERNELS_TOP_K_TOP_K_HANDLER_H_
#define ACCELERATE_KERNELS_TOP_K_TOP_K_HANDLER_H_

#include "xla/ffi/api/ffi.h"

XLA_FFI_DECLARE_HANDLER_SYMBOL(XlaFfiAccelerateTopKCpu);

#endif  // ACCELERATE_KERNELS_TOP_K_TOP_K_HANDLER_H_
