#include "xla_ffi/ops/relu/relu.h"

#include <cstdint>

#include "xla_ffi/core/cuda/handler.h"

namespace xla_ffi_kit::relu {
namespace {

namespace ffi = ::xla::ffi;

// One thread's step.
template <typename T>
struct ReluPack {
  const T* in;
  T* out;

  template <int N>
  XLA_FFI_KIT_HOST_DEVICE void operator()(int64_t i, Width<N>) const {
    Pack<T, N> pack = LoadPack<N>(in + i);
    for (int k = 0; k < N; ++k) pack.values[k] = ReluElement(pack.values[k]);
    StorePack(pack, out + i);
  }
};

template <typename T>
cudaError_t Relu(const T* in, int64_t count, T* out, cudaStream_t stream) {
  const ReluPack<T> step = {in, out};
  if (IsPackAligned(in) && IsPackAligned(out)) {
    return LaunchElementwise<kPackWidth<T>>(count, step, stream);
  }
  return LaunchElementwise<1>(count, step, stream);
}

ffi::Error Run(const ReluCall& call, cudaStream_t stream) {
  return call.Dispatch<x>([&](auto tag) {
    return CudaStatus(call.operation(),
                      Relu(call.get<x>().as(tag), call.get<x>().count(),
                           call.get<y>().as(tag), stream));
  });
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(XlaFfiKitReluCuda, Checked<Run>, BindCall<Run>(),
                              {ffi::Traits::kCmdBufferCompatible});
XLA_FFI_KIT_DEFINE_SIGNATURE(XlaFfiKitReluCuda, ReluCall);

}  // namespace xla_ffi_kit::relu
