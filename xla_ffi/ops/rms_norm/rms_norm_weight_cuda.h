// RMS normalisation of rows with a weight, and maybe a residual, and its
// derivative, on CUDA devices: the formulas of rms_norm.h and
// rms_norm_backward.h. Types, alignment and accuracy: see rms_norm_cuda.h;
// complex rows are aligned to whole elements.
//
// Sums over rows are the same from run to run on one device; their last digit
// may differ between devices.

#ifndef XLA_FFI_OPS_RMS_NORM_RMS_NORM_WEIGHT_CUDA_H_
#define XLA_FFI_OPS_RMS_NORM_RMS_NORM_WEIGHT_CUDA_H_

#include <cstdint>

#include "cuda_runtime.h"
#include "xla_ffi/core/accumulation_type.h"
#include "xla_ffi/core/cuda/row_sums.h"
#include "xla_ffi/ops/rms_norm/rms_norm_cuda.h"

namespace xla_ffi_kit {

// Outputs may be x or residual, as in rms_norm.h.
template <typename R>
struct RmsNormWeightCudaForward {
  const R* x = nullptr;
  const R* weight = nullptr;
  const R* residual = nullptr;  // or null: none
  R* y = nullptr;
  R* sum = nullptr;                      // exactly if there is a residual
  AccumulationType<R>* scale = nullptr;  // or null: not wanted
  CudaRows shape = {};
  int64_t rows_per_weight = 1;
  double eps = 0;
};

// One launch, which CUDA graphs may capture; none for no rows.
template <typename R>
cudaError_t RmsNormWeightCuda(const RmsNormWeightCudaForward<R>& args,
                              cudaStream_t stream);

// dx may be x, ct or ct_sum.
template <typename R>
struct RmsNormWeightCudaBackward {
  const AccumulationType<R>* scale = nullptr;
  const R* x = nullptr;
  const R* weight = nullptr;
  const R* ct = nullptr;
  const R* ct_sum = nullptr;  // or null: zeros
  R* dx = nullptr;
  R* dweight = nullptr;
  CudaRows shape = {};
  int64_t weights = 1;  // shape.rows is a multiple of it
};

// How the current device does it.
struct RmsNormWeightCudaPlan {
  RowSumsPlan rows;        // of rows in registers, or ...
  ColumnSumsPlan columns;  // ... of longer ones
  int64_t scratch_bytes = 0;
};

template <typename R>
cudaError_t PlanRmsNormWeightBackward(const RmsNormWeightCudaBackward<R>& args,
                                      RmsNormWeightCudaPlan* plan);

// Two or three launches; none for no weights. `scratch` has plan.scratch_bytes,
// which the kernels use until they are done.
template <typename R>
cudaError_t RmsNormWeightBackwardCuda(const RmsNormWeightCudaBackward<R>& args,
                                      const RmsNormWeightCudaPlan& plan,
                                      void* scratch, cudaStream_t stream);

}  // namespace xla_ffi_kit

#endif  // XLA_FFI_OPS_RMS_NORM_RMS_NORM_WEIGHT_CUDA_H_
