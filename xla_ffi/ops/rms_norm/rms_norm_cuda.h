// RMS normalization of rows and its backward, on CUDA devices; the formulas and
// the arguments are in rms_norm.h.
//
// Any alignment of whole elements; faster where rows begin at multiples of 16
// bytes.
//
// Accuracy: a thread adds a few products of its own in A = AccumulationType<T>,
// all else in double, so that sums do not drift with n. The squares of floats
// beyond 1.8e19 overflow, as XLA's own do. Sums over rows are the same from run
// to run on one device; their last digit may differ between devices.
//
// The functions launch kernels on `stream`, nothing where there is nothing to
// write, and return the launch's error.

#ifndef XLA_FFI_OPS_RMS_NORM_RMS_NORM_CUDA_H_
#define XLA_FFI_OPS_RMS_NORM_RMS_NORM_CUDA_H_

#include <cstdint>

#include "cuda_runtime.h"
#include "xla_ffi/core/cuda/row_sums.h"
#include "xla_ffi/ops/rms_norm/rms_norm.h"

namespace xla_ffi_kit {

// One launch, which CUDA graphs may capture.
template <typename T>
cudaError_t RmsNormCuda(const RmsNormForwardArgs<T>& args, cudaStream_t stream);

// dx of arguments without weight and ct_sum. One launch, which CUDA graphs may
// capture.
template <typename T>
cudaError_t RmsNormBackwardCuda(const RmsNormBackwardArgs<T>& args,
                                cudaStream_t stream);

// How the current device computes dx and dweight.
struct RmsNormWeightBackwardPlan {
  RowSumsPlan rows;        // of rows in registers, or ...
  ColumnSumsPlan columns;  // ... of longer ones
  int64_t scratch_bytes = 0;
};

// For arguments with scale, weight and dweight.
template <typename T>
cudaError_t PlanRmsNormWeightBackward(const RmsNormBackwardArgs<T>& args,
                                      RmsNormWeightBackwardPlan* plan);

// dx and dweight, in two or three launches. `scratch` has plan.scratch_bytes,
// which the kernels use until they are done.
template <typename T>
cudaError_t RmsNormWeightBackwardCuda(const RmsNormBackwardArgs<T>& args,
                                      const RmsNormWeightBackwardPlan& plan,
                                      void* scratch, cudaStream_t stream);

}  // namespace xla_ffi_kit

#endif  // XLA_FFI_OPS_RMS_NORM_RMS_NORM_CUDA_H_
