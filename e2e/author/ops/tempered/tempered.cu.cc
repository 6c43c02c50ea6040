#include "tempered.h"

#include <cstdint>

#include "xla_ffi/core/cuda/handler.h"

namespace author::tempered {
namespace {

namespace ffi = ::xla::ffi;

// Your kernel: what a thread does for element i.
template <typename T>
struct Kernel {
  const T* in;
  kit::AccumulationType<T> factor;
  T* out;
  __device__ void operator()(int64_t i, kit::Width<1>) const {
    const auto v = static_cast<kit::AccumulationType<T>>(in[i]);
    out[i] = static_cast<T>(v / (1 + exp(-factor * v)));
  }
};

ffi::Error Run(const OpCall& call, cudaStream_t stream) {
  return call.Dispatch<x>([&](auto tag) {
    using T = typename decltype(tag)::type;
    const Kernel<T> kernel = {
        call.get<x>().as(tag),
        static_cast<kit::AccumulationType<T>>(call.get<beta>()),
        call.get<y>().as(tag)};
    const int64_t n = call.get<x>().count();
    return kit::CudaStatus(kName, kit::LaunchElementwise<1>(n, kernel, stream));
  });
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(AuthorTemperedCuda, kit::Checked<Run>,
                              kit::BindCall<Run>(),
                              {ffi::Traits::kCmdBufferCompatible});
XLA_FFI_KIT_DEFINE_SIGNATURE(AuthorTemperedCuda, OpCall);

}  // namespace author::tempered
