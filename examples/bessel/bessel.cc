// K_v(x), the modified Bessel function of the second kind, of any real order:
// SciPy's own function, called from XLA's threads.
//
// SciPy's Cython modules offer their C functions as pointers, in capsules. Here
// they arrive once, before the first call: the library links with nothing.

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "xla/ffi/api/ffi.h"
#include "xla_ffi/core/parallel_for.h"

namespace {

namespace ffi = ::xla::ffi;
using F64 = ffi::Buffer<ffi::F64>;

// What Cython makes of `double kv(double, double) nogil`.
using Kv = double(double v, double x, int skip_dispatch);
std::atomic<Kv*> kv = nullptr;

ffi::Error BesselK(ffi::ThreadPool pool, F64 x, ffi::Result<F64> y, double v) {
  Kv* const function = kv;
  if (function == nullptr) {
    return ffi::Error(
        ffi::ErrorCode::kFailedPrecondition,
        "examples.bessel_k: expected SciPy's function, got none: call "
        "ExampleBesselSetKv first");
  }
  if (x.element_count() != y->element_count()) {
    return ffi::Error::InvalidArgument(
        "examples.bessel_k: expected a result of operand x's shape");
  }
  const double* in = x.typed_data();
  double* out = y->typed_data();
  // An element takes as long as the transfer of some hundred bytes.
  xla_ffi_kit::ParallelFor(pool, static_cast<int64_t>(x.element_count()), 512,
                           [&](int64_t begin, int64_t end) noexcept {
                             for (int64_t i = begin; i < end; ++i) {
                               out[i] = function(v, in[i], 0);
                             }
                           });
  return ffi::Error::Success();
}

}  // namespace

extern "C" void ExampleBesselSetKv(void* function) {
  kv = reinterpret_cast<Kv*>(function);
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(ExampleBesselK, BesselK,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .Arg<F64>()  // x
                                  .Ret<F64>()  // y
                                  .Attr<double>("v"));
