// One thread's step of the CUDA kernel; plain C++ tests run it too.

#ifndef XLA_FFI_OPS_RELU_RELU_PACK_H_
#define XLA_FFI_OPS_RELU_RELU_PACK_H_

#include <cstdint>

#include "xla_ffi/core/cuda/pack.h"
#include "xla_ffi/core/host_device.h"
#include "xla_ffi/ops/relu/relu_element.h"

namespace xla_ffi_kit {

template <typename T>
struct ReluPack {
  const T* x;
  T* y;

  template <int N>
  XLA_FFI_KIT_HOST_DEVICE void operator()(int64_t i, Width<N>) const {
    Pack<T, N> pack = LoadPack<N>(x + i);
    for (int k = 0; k < N; ++k) pack.values[k] = ReluElement(pack.values[k]);
    StorePack(pack, y + i);
  }
};

}  // namespace xla_ffi_kit

#endif  // XLA_FFI_OPS_RELU_RELU_PACK_H_
