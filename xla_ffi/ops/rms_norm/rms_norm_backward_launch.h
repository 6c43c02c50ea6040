// Code that the launches of the backward with and without a weight share.

#ifndef XLA_FFI_OPS_RMS_NORM_RMS_NORM_BACKWARD_LAUNCH_H_
#define XLA_FFI_OPS_RMS_NORM_RMS_NORM_BACKWARD_LAUNCH_H_

#include <cstdint>

#include "cuda_runtime.h"
#include "xla_ffi/core/accumulation_type.h"
#include "xla_ffi/core/components.h"
#include "xla_ffi/ops/rms_norm/rms_norm.h"
#include "xla_ffi/ops/rms_norm/rms_norm_backward_row_work.h"
#include "xla_ffi/ops/rms_norm/rms_norm_elements.h"

namespace xla_ffi_kit::rms_norm_internal {

// Returns fn(Elements<T, ...>(), packs of a row).
template <typename T, typename Fn>
cudaError_t WithElements(const RmsNormBackwardArgs<T>& args, const Fn& fn) {
  const bool is_aligned =
      AreAligned(args.x, args.ct, args.weight, args.ct_sum, args.dx);
  return DispatchElements<T>(args.n, is_aligned, fn);
}

template <typename E, typename T>
BackwardRows<E> RowsOf(const RmsNormBackwardArgs<T>& args, int64_t packs,
                       void* workspace) {
  return {AsComponents(args.x),
          AsComponents(args.ct),
          args.scale,
          AsComponents(args.weight),
          AsComponents(args.ct_sum),
          AsComponents(args.dx),
          static_cast<AccumulationType<T>*>(workspace),
          args.rows,
          args.rows_per_weight,
          packs,
          1 / static_cast<double>(args.n),
          args.eps};
}

// dx, with or without a weight, of rows of any kind; in
// rms_norm_backward.cu.cc.
template <typename E>
cudaError_t LaunchBackwardOfAnyRow(const BackwardRows<E>& rows,
                                   cudaStream_t stream);

}  // namespace xla_ffi_kit::rms_norm_internal

#endif  // XLA_FFI_OPS_RMS_NORM_RMS_NORM_BACKWARD_LAUNCH_H_
