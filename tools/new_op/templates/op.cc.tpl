// @NAME@: y = x * sigmoid(beta * x), as a kernel and as a handler of XLA.

#include <cmath>

#include "xla_ffi/core/handler.h"

namespace {

namespace ffi = ::xla::ffi;
namespace kit = ::xla_ffi_kit;

// Your kernel: plain C++. (The 16-bit types are computed in float.)
template <typename T>
void Kernel(const T* x, int64_t n, kit::AccumulationType<T> beta, T* y) {
  for (int64_t i = 0; i < n; ++i) {
    const auto v = static_cast<kit::AccumulationType<T>>(x[i]);
    y[i] = static_cast<T>(v / (1 + std::exp(-beta * v)));
  }
}

// Your arguments, in the order of the binding below.
ffi::Error Run(ffi::ThreadPool pool, double beta, ffi::AnyBuffer x,
               ffi::Result<ffi::AnyBuffer> y) {
  constexpr char kOp[] = "@TARGET@";
  XLA_FFI_KIT_RETURN_IF_ERROR(kit::CheckData({kOp, "operand x"}, x));
  XLA_FFI_KIT_RETURN_IF_ERROR(
      kit::CheckLike({kOp, "result y"}, *y, x, "like operand x"));
  // Your dtypes: kit::TypeList<float, double>, for instance.
  return kit::DispatchDtype(
      kit::RealFloatTypes(), x.element_type(), {kOp, "operand x"},
      [&](auto tag) -> ffi::Error {
        using T = typename decltype(tag)::type;
        const auto* in = static_cast<const T*>(x.untyped_data());
        auto* out = static_cast<T*>(y->untyped_data());
        kit::ParallelFor(pool, kit::ElementCount(x), 2 * sizeof(T),
                         [&](int64_t begin, int64_t end) noexcept {
                           Kernel(in + begin, end - begin, beta, out + begin);
                         });
        return {};
      });
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(@SYMBOL@Cpu, Run,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .Attr<double>("beta")
                                  .Arg<ffi::AnyBuffer>()    // x
                                  .Ret<ffi::AnyBuffer>());  // y
