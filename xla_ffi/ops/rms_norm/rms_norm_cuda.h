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
#include "xla_ffi/core/dtypes.h"
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

// The bytes of workspace that dx and dweight need at least. With as many times
// that as a GPU runs blocks, and more, the sums of dweight are fast and exact
// to the last digit: see xla_ffi_kit.rms_norm's Python.
template <typename T>
int64_t RmsNormLeastWorkspace(const RmsNormBackwardArgs<T>& args) {
  constexpr auto kSumBytes = static_cast<int64_t>(sizeof(AccumulationType<T>));
  return args.weights * args.n * kSumBytes;
}

// dx and dweight, of arguments with scale, weight and dweight, in two launches,
// or three for rows that are read twice, which CUDA graphs may capture.
// `workspace` begins at a multiple of the size of its numbers; the kernels use
// it until they are done.
template <typename T>
cudaError_t RmsNormWeightBackwardCuda(const RmsNormBackwardArgs<T>& args,
                                      void* workspace, int64_t workspace_bytes,
                                      cudaStream_t stream);

}  // namespace xla_ffi_kit

#endif  // XLA_FFI_OPS_RMS_NORM_RMS_NORM_CUDA_H_
