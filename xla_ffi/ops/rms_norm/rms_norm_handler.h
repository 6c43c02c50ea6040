// The FFI handlers of RMS normalization, on the CPU and on CUDA devices.
//
// In brackets what may be absent, on every platform:
//
//   target xla_ffi_kit.    operands                         results
//   rms_norm               x [, weight [, residual]]        y [, sum] [, scale]
//   rms_norm_bwd           x, ct [, scale]                  dx
//   rms_norm_weight_bwd    x, ct, scale, weight [, ct_sum]  dx, dweight
//
// On CUDA devices rms_norm_weight_bwd has one result more, `workspace`,
// u8[bytes], which nobody reads: memory for the sums of dweight, at least as
// much as dweight takes in the type of `scale`. With more, more blocks work on
// them: with 1024 times that, as many as a large GPU runs.
//
// The number of operands and results says which they are: `sum` is a result
// exactly if `residual` is an operand, and any further result is `scale`.
//
//   x         T[..., n], n >= 1: f16, bf16, f32, f64, c64 or c128
//   weight    T[P..., n], where [P...] is any number of the first axes of x,
//             usually none: rows that differ in the other axes share it
//   scale     A[...]: f32, f64 for f64 and c128
//   residual, y, sum, ct, ct_sum, dx: like x; dweight: like weight
//
// Every buffer is a dense row-major array; the batch [...] is any number of
// axes, of any size, also none. The formulas are in rms_norm.h. y, sum and
// dx may share a buffer with any operand like x. With a residual the backward's
// x is the forward's sum, ct_sum its cotangent, and dx the cotangent of the
// residual too.
//
// Attributes: rms_norm has `eps`, a finite f32 or f64 >= 0. rms_norm_bwd has
// `eps` without a scale, which it then computes again, and no attribute with
// one.
//
// Errors are INVALID_ARGUMENT: operands or results that are too many or too
// few, rank 0, an empty last axis, another dtype, a shape or dtype that does
// not fit the others, a missing, unknown or wrong attribute.
//
// On CUDA devices the handlers return the error of the launch too, and may be
// captured in a command buffer.

#ifndef XLA_FFI_OPS_RMS_NORM_RMS_NORM_HANDLER_H_
#define XLA_FFI_OPS_RMS_NORM_RMS_NORM_HANDLER_H_

#include "xla/ffi/api/ffi.h"

XLA_FFI_DECLARE_HANDLER_SYMBOL(XlaFfiKitRmsNormCpu);
XLA_FFI_DECLARE_HANDLER_SYMBOL(XlaFfiKitRmsNormBwdCpu);
XLA_FFI_DECLARE_HANDLER_SYMBOL(XlaFfiKitRmsNormWeightBwdCpu);

XLA_FFI_DECLARE_HANDLER_SYMBOL(XlaFfiKitRmsNormCuda);
XLA_FFI_DECLARE_HANDLER_SYMBOL(XlaFfiKitRmsNormBwdCuda);
XLA_FFI_DECLARE_HANDLER_SYMBOL(XlaFfiKitRmsNormWeightBwdCuda);

#endif  // XLA_FFI_OPS_RMS_NORM_RMS_NORM_HANDLER_H_
