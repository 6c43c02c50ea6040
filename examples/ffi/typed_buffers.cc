// Buffers whose dtype and rank the FFI checks before the handler is called.
//
// examples.matvec: (alpha f32[], a f32[m,n], x f32[n]) -> y f32[m],
// y = alpha a x. The lengths of the axes are the handler's own to check.

#include <cstdint>
#include <string>

#include "xla/ffi/api/ffi.h"

namespace {

namespace ffi = ::xla::ffi;

ffi::Error MatVec(ffi::BufferR0<ffi::F32> alpha, ffi::BufferR2<ffi::F32> a,
                  ffi::BufferR1<ffi::F32> x, ffi::ResultBufferR1<ffi::F32> y) {
  const int64_t m = a.dimensions().front(), n = a.dimensions().back();
  if (x.dimensions()[0] != n || y->dimensions()[0] != m) {
    return ffi::Error::InvalidArgument(
        "examples.matvec: expected " + std::to_string(n) +
        " elements in operand x and " + std::to_string(m) +
        " in the result, got " + std::to_string(x.element_count()) + " and " +
        std::to_string(y->element_count()));
  }
  for (int64_t i = 0; i < m; ++i) {
    float sum = 0;
    for (int64_t j = 0; j < n; ++j) {
      sum += a.typed_data()[i * n + j] * x.typed_data()[j];
    }
    y->typed_data()[i] = *alpha.typed_data() * sum;
  }
  return ffi::Error::Success();
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(ExampleMatVec, MatVec,
                              ffi::Ffi::Bind()
                                  .Arg<ffi::BufferR0<ffi::F32>>()    // alpha
                                  .Arg<ffi::BufferR2<ffi::F32>>()    // a
                                  .Arg<ffi::BufferR1<ffi::F32>>()    // x
                                  .Ret<ffi::BufferR1<ffi::F32>>());  // y
