// Layouts: a handler sees bytes, not the order that the caller meant.
//
// examples.column_sums: (a f32[m,n] in column-major order) -> f32[n]. In JAX,
// ffi_call(..., input_layouts=[(1, 0)]): the axes from the slowest to the
// fastest. XLA, in HLO text f32[m,n]{0,1}, lists them the other way about. XLA
// transposes an operand that lies otherwise.

#include <cstdint>

#include "xla/ffi/api/ffi.h"

namespace {

namespace ffi = ::xla::ffi;

ffi::Error ColumnSums(ffi::BufferR2<ffi::F32> a,
                      ffi::ResultBufferR1<ffi::F32> sums) {
  // Dimensions are the logical ones, whatever the layout.
  const int64_t m = a.dimensions()[0], n = a.dimensions()[1];
  if (sums->dimensions()[0] != n) {
    return ffi::Error::InvalidArgument(
        "examples.column_sums: result: expected one element per column");
  }
  for (int64_t j = 0; j < n; ++j) {
    const float* column = a.typed_data() + j * m;  // contiguous
    float sum = 0;
    for (int64_t i = 0; i < m; ++i) sum += column[i];
    sums->typed_data()[j] = sum;
  }
  return ffi::Error::Success();
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(ExampleColumnSums, ColumnSums,
                              ffi::Ffi::Bind()
                                  .Arg<ffi::BufferR2<ffi::F32>>()    // a
                                  .Ret<ffi::BufferR1<ffi::F32>>());  // sums
