// The FFI handler of the cumulative log-sum-exp, on the CPU.
//
// Target xla_ffi_accelerate.cumlogsumexp: x[..., n] -> y like x
//
// y[k] = log(exp(x[0]) + ... + exp(x[k])) along the last axis; with `reverse`,
// of x[k] to x[n - 1]. x: f32, f64; attribute reverse: pred. Errors are
// INVALID_ARGUMENT.

#ifndef ACCELERATE_KERNELS_CUMLOGSUMEXP_CUMLOGSUMEXP_HANDLER_H_
#define ACCELERATE_KERNELS_CUMLOGSUMEXP_CUMLOGSUMEXP_HANDLER_H_

#include "xla/ffi/api/ffi.h"

XLA_FFI_DECLARE_HANDLER_SYMBOL(XlaFfiAccelerateCumlogsumexpCpu);

#endif  // ACCELERATE_KERNELS_CUMLOGSUMEXP_CUMLOGSUMEXP_HANDLER_H_
