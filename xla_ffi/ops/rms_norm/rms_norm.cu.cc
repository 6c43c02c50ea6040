#include <complex>
#include <cstdint>

#include "cuda_runtime.h"
#include "xla_ffi/core/components.h"
#include "xla_ffi/core/cuda/launch.h"
#include "xla_ffi/core/half.h"
#include "xla_ffi/ops/rms_norm/rms_norm_cuda.h"
#include "xla_ffi/ops/rms_norm/rms_norm_elements.h"
#include "xla_ffi/ops/rms_norm/rms_norm_row_work.h"

namespace xla_ffi_kit {

using rms_norm_internal::AreAligned;
using rms_norm_internal::DispatchElements;
using rms_norm_internal::ForwardInRegisters;
using rms_norm_internal::ForwardRows;
using rms_norm_internal::ForwardWide;

template <typename T>
cudaError_t RmsNormCuda(const RmsNormForwardArgs<T>& args,
                        cudaStream_t stream) {
  if (args.rows == 0) return cudaSuccess;
  const bool is_aligned =
      AreAligned(args.x, args.weight, args.residual, args.y, args.sum);
  return DispatchElements<T>(
      args.n, is_aligned, [&](auto elements, int64_t packs) {
        using E = decltype(elements);
        const ForwardRows<E> rows = {AsComponents(args.x),
                                     AsComponents(args.weight),
                                     AsComponents(args.residual),
                                     AsComponents(args.y),
                                     AsComponents(args.sum),
                                     args.scale,
                                     args.rows,
                                     args.rows_per_weight,
                                     packs,
                                     1 / static_cast<double>(args.n),
                                     args.eps,
                                     args.add_relu};
        constexpr int64_t kPackSize = E::W * sizeof(typename E::R);
        return args.weight == nullptr ? LaunchRows<ForwardInRegisters<E, false>,
                                                   ForwardWide<E, false>>(
                                            rows, packs, kPackSize, stream)
                                      : LaunchRows<ForwardInRegisters<E, true>,
                                                   ForwardWide<E, true>>(
                                            rows, packs, kPackSize, stream);
      });
}

#define XLA_FFI_KIT_INSTANTIATE(T) \
  template cudaError_t RmsNormCuda(const RmsNormForwardArgs<T>&, cudaStream_t)
XLA_FFI_KIT_INSTANTIATE(Float16);
XLA_FFI_KIT_INSTANTIATE(BFloat16);
XLA_FFI_KIT_INSTANTIATE(float);
XLA_FFI_KIT_INSTANTIATE(double);
XLA_FFI_KIT_INSTANTIATE(std::complex<float>);
XLA_FFI_KIT_INSTANTIATE(std::complex<double>);
#undef XLA_FFI_KIT_INSTANTIATE

}  // namespace xla_ffi_kit
