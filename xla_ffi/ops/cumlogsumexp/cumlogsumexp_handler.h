// The FFI handler of the cumulative log-sum-exp, on the CPU.
//
// Target xla_ffi_kit.cumlogsumexp: x[..., n] -> y like x
//
// y[k] = log(exp(x[0]) + ... + exp(x[k])) along the last axis; with `reverse`,
// of x[k] to x[n - 1]. x: f32, f64; attribute reverse: pred. Errors are
// INVALID_ARGUMENT.

#ifndef XLA_FFI_OPS_CUMLOGSUMEXP_CUMLOGSUMEXP_HANDLER_H_
#define XLA_FFI_OPS_CUMLOGSUMEXP_CUMLOGSUMEXP_HANDLER_H_

#include "xla/ffi/api/ffi.h"

XLA_FFI_DECLARE_HANDLER_SYMBOL(XlaFfiKitCumlogsumexpCpu);

#endif  // XLA_FFI_OPS_CUMLOGSUMEXP_CUMLOGSUMEXP_HANDLER_H_
