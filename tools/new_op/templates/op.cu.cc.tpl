// @NAME@ on CUDA devices: the kernel, and its handler.

#include "xla_ffi/core/cuda/handler.h"

namespace {

namespace ffi = ::xla::ffi;
namespace kit = ::xla_ffi_kit;

// Your kernel: what a thread does for element i.
template <typename T>
struct Kernel {
  const T* x;
  kit::AccumulationType<T> beta;
  T* y;
  __device__ void operator()(int64_t i, kit::Width<1>) const {
    const auto v = static_cast<kit::AccumulationType<T>>(x[i]);
    y[i] = static_cast<T>(v / (1 + exp(-beta * v)));
  }
};

ffi::Error Run(cudaStream_t stream, double beta, ffi::AnyBuffer x,
               ffi::Result<ffi::AnyBuffer> y) {
  constexpr char kOp[] = "@TARGET@";
  XLA_FFI_KIT_RETURN_IF_ERROR(kit::CheckData({kOp, "operand x"}, x));
  XLA_FFI_KIT_RETURN_IF_ERROR(
      kit::CheckLike({kOp, "result y"}, *y, x, "like operand x"));
  return kit::DispatchDtype(
      kit::RealFloatTypes(), x.element_type(), {kOp, "operand x"},
      [&](auto tag) -> ffi::Error {
        using T = typename decltype(tag)::type;
        const Kernel<T> kernel = {static_cast<const T*>(x.untyped_data()),
                                  static_cast<kit::AccumulationType<T>>(beta),
                                  static_cast<T*>(y->untyped_data())};
        const int64_t n = kit::ElementCount(x);
        return kit::CudaStatus(kOp,
                               kit::LaunchElementwise<1>(n, kernel, stream));
      });
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(@SYMBOL@Cuda, Run,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::PlatformStream<cudaStream_t>>()
                                  .Attr<double>("beta")
                                  .Arg<ffi::AnyBuffer>()   // x
                                  .Ret<ffi::AnyBuffer>(),  // y
                              {ffi::Traits::kCmdBufferCompatible});
