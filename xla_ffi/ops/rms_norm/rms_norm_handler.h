// The FFI handlers of RMS normalisation on the CPU.
//
// dtypes T: f16, bf16, f32, f64, c64, c128; A = f32 for f16, bf16, f32 and
// c64, f64 for f64 and c128. Every operand and result is a dense row-major
// array; the batch [...] is any number of axes, of any size, also none.
//
// | target                  | operands                         | results     |
// |-------------------------|----------------------------------|-------------|
// | xla_ffi_kit.rms_norm     | x T[..., n]                      | y like x    |
// | xla_ffi_kit.rms_norm_fwd | x T[..., n]                      | y like x,   |
// |                          |                                  | scale A[...]|
// | xla_ffi_kit.rms_norm_bwd | scale A[...], x T[..., n],       | dx like x   |
// |                          | ct T[..., n]                     |             |
//
// The forward ones take one attribute, `eps`, a finite f64 >= 0. See
// rms_norm.h for the formulas. Errors are INVALID_ARGUMENT: rank 0, an empty
// last axis, another dtype, a shape or dtype that does not fit the others, a
// missing, unknown or wrong attribute.

#ifndef XLA_FFI_OPS_RMS_NORM_RMS_NORM_HANDLER_H_
#define XLA_FFI_OPS_RMS_NORM_RMS_NORM_HANDLER_H_

#include "xla/ffi/api/ffi.h"

XLA_FFI_DECLARE_HANDLER_SYMBOL(XlaFfiKitRmsNormCpu);
XLA_FFI_DECLARE_HANDLER_SYMBOL(XlaFfiKitRmsNormFwdCpu);
XLA_FFI_DECLARE_HANDLER_SYMBOL(XlaFfiKitRmsNormBwdCpu);

#endif  // XLA_FFI_OPS_RMS_NORM_RMS_NORM_HANDLER_H_
