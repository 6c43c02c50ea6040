// RMS normalisation of rows, and its derivative, on CUDA devices: the formulas
// of rms_norm.h and rms_norm_backward.h without weight and residual.
//
// R is the type of components: Float16, BFloat16, float or double. A complex
// row of n elements is a real one of 2n components. Any alignment; faster
// where rows begin at multiples of 16 bytes.
//
// Accuracy: a thread adds a few products of its own in A = AccumulationType<R>,
// all else in double, so that sums do not drift with n; results are rounded to
// R once. The squares of floats beyond 1.8e19 overflow, as XLA's own do.
//
// The functions launch one kernel on `stream`, which CUDA graphs may capture,
// and nothing for no rows. They return the launch's error.

#ifndef XLA_FFI_OPS_RMS_NORM_RMS_NORM_CUDA_H_
#define XLA_FFI_OPS_RMS_NORM_RMS_NORM_CUDA_H_

#include <cstdint>

#include "cuda_runtime.h"
#include "xla_ffi/core/accumulation_type.h"

namespace xla_ffi_kit {

// The rows of an array.
struct CudaRows {
  int64_t rows;
  int64_t n;       // elements of a row, >= 1
  int components;  // of an element: 2 for complex ones, else 1
};

// y = x * scale. Also stores `scale`, [rows], unless it is null. `y` may be
// `x`.
template <typename R>
cudaError_t RmsNormCuda(const CudaRows& shape, const R* x, double eps, R* y,
                        AccumulationType<R>* scale, cudaStream_t stream);

// The cotangent `dx` of x from that of y. `dx` may be `x` or `ct`. A null
// `scale` is that of x and `eps`, which counts for nothing else.
template <typename R>
cudaError_t RmsNormBackwardCuda(const CudaRows& shape,
                                const AccumulationType<R>* scale, const R* x,
                                const R* ct, double eps, R* dx,
                                cudaStream_t stream);

}  // namespace xla_ffi_kit

#endif  // XLA_FFI_OPS_RMS_NORM_RMS_NORM_CUDA_H_
