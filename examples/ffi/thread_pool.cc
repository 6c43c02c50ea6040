// The thread pool: the threads that XLA's own operations run on.
//
// examples.parallel_square: (x f64[n]) -> x * x. ParallelFor lets the calling
// thread work too: a handler that only schedules tasks and waits for them hangs
// as soon as every thread of the pool is such a handler.

#include <cstdint>

#include "xla/ffi/api/ffi.h"
#include "xla_ffi/core/parallel_for.h"

namespace {

namespace ffi = ::xla::ffi;

ffi::Error Square(ffi::ThreadPool pool, ffi::BufferR1<ffi::F64> x,
                  ffi::ResultBufferR1<ffi::F64> y) {
  if (!(x.dimensions() == y->dimensions())) {
    return ffi::Error::InvalidArgument(
        "examples.parallel_square: expected a result as long as operand x");
  }
  const double* in = x.typed_data();
  double* out = y->typed_data();
  xla_ffi_kit::ParallelFor(pool, static_cast<int64_t>(x.element_count()),
                           2 * sizeof(double),
                           [&](int64_t begin, int64_t end) noexcept {
                             for (int64_t i = begin; i < end; ++i) {
                               out[i] = in[i] * in[i];
                             }
                           });
  return ffi::Error::Success();
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(ExampleParallelSquare, Square,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .Arg<ffi::BufferR1<ffi::F64>>()    // x
                                  .Ret<ffi::BufferR1<ffi::F64>>());  // y
