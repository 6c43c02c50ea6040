// The FFI handlers of RMS normalisation, on the CPU and on CUDA devices.
//
// dtypes T: f16, bf16, f32, f64, c64, c128; A = f32 for f16, bf16, f32 and
// c64, f64 for f64 and c128. Every operand and result is a dense row-major
// array; the batch [...] is any number of axes, of any size, also none. A
// weight is T[P..., n], where [P...] is any number of the first axes of the
// batch, usually none: those it lacks share it.
//
//   target xla_ffi_kit.rms_norm   operands                     results
//   (none)                        x T[..., n]                  y
//   _fwd                          x                            y, scale A[...]
//   _weight                       x, weight                    y
//   _weight_fwd                   x, weight                    y, scale
//   _weight_residual              x, weight, residual          y, sum
//   _weight_residual_fwd          x, weight, residual          y, sum, scale
//   _block                        x, weight                    y
//   _block_fwd                    x, weight                    y, scale
//   _grad                         x, ct                        dx
//   _bwd                          scale, x, ct                 dx
//   _weight_bwd                   scale, x, weight, ct         dx, dweight
//   _weight_residual_bwd          scale, x, weight, ct,        dx, dweight
//                                 ct_sum
//
// residual, y, sum, ct, ct_sum and dx are like x, dweight is like weight; the
// last one's x is the forward's sum, its dx the cotangent of the residual too.
// A block's T is not complex. The formulas are in rms_norm.h and
// rms_norm_backward.h. All but the _bwd ones take one attribute, `eps`, a
// finite f64 >= 0. y, sum and dx may share a buffer with any operand like x.
//
// Errors are INVALID_ARGUMENT: rank 0, an empty last axis, another dtype, a
// shape or dtype that does not fit the others, a missing, unknown or wrong
// attribute.
//
// On CUDA devices there are all targets but the _block ones, with the same
// checks; see rms_norm_cuda.h and rms_norm_weight_cuda.h. Their handlers return
// the error of the launch too, and may be captured in a command buffer, but for
// the two with a result dweight: these need scratch memory (RESOURCE_EXHAUSTED
// where there is not enough).

#ifndef XLA_FFI_OPS_RMS_NORM_RMS_NORM_HANDLER_H_
#define XLA_FFI_OPS_RMS_NORM_RMS_NORM_HANDLER_H_

#include "xla/ffi/api/ffi.h"

XLA_FFI_DECLARE_HANDLER_SYMBOL(XlaFfiKitRmsNormCpu);
XLA_FFI_DECLARE_HANDLER_SYMBOL(XlaFfiKitRmsNormFwdCpu);
XLA_FFI_DECLARE_HANDLER_SYMBOL(XlaFfiKitRmsNormWeightCpu);
XLA_FFI_DECLARE_HANDLER_SYMBOL(XlaFfiKitRmsNormWeightFwdCpu);
XLA_FFI_DECLARE_HANDLER_SYMBOL(XlaFfiKitRmsNormWeightResidualCpu);
XLA_FFI_DECLARE_HANDLER_SYMBOL(XlaFfiKitRmsNormWeightResidualFwdCpu);
XLA_FFI_DECLARE_HANDLER_SYMBOL(XlaFfiKitRmsNormBlockCpu);
XLA_FFI_DECLARE_HANDLER_SYMBOL(XlaFfiKitRmsNormBlockFwdCpu);

XLA_FFI_DECLARE_HANDLER_SYMBOL(XlaFfiKitRmsNormGradCpu);
XLA_FFI_DECLARE_HANDLER_SYMBOL(XlaFfiKitRmsNormBwdCpu);
XLA_FFI_DECLARE_HANDLER_SYMBOL(XlaFfiKitRmsNormWeightBwdCpu);
XLA_FFI_DECLARE_HANDLER_SYMBOL(XlaFfiKitRmsNormWeightResidualBwdCpu);

XLA_FFI_DECLARE_HANDLER_SYMBOL(XlaFfiKitRmsNormCuda);
XLA_FFI_DECLARE_HANDLER_SYMBOL(XlaFfiKitRmsNormFwdCuda);
XLA_FFI_DECLARE_HANDLER_SYMBOL(XlaFfiKitRmsNormWeightCuda);
XLA_FFI_DECLARE_HANDLER_SYMBOL(XlaFfiKitRmsNormWeightFwdCuda);
XLA_FFI_DECLARE_HANDLER_SYMBOL(XlaFfiKitRmsNormWeightResidualCuda);
XLA_FFI_DECLARE_HANDLER_SYMBOL(XlaFfiKitRmsNormWeightResidualFwdCuda);

XLA_FFI_DECLARE_HANDLER_SYMBOL(XlaFfiKitRmsNormGradCuda);
XLA_FFI_DECLARE_HANDLER_SYMBOL(XlaFfiKitRmsNormBwdCuda);
XLA_FFI_DECLARE_HANDLER_SYMBOL(XlaFfiKitRmsNormWeightBwdCuda);
XLA_FFI_DECLARE_HANDLER_SYMBOL(XlaFfiKitRmsNormWeightResidualBwdCuda);

#endif  // XLA_FFI_OPS_RMS_NORM_RMS_NORM_HANDLER_H_
