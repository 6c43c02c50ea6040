// Input-output aliasing: a result in the memory of an operand.
//
// examples.add_one: (x s32[...]) -> y like x, y = x + 1; x and y may be one
// buffer. in_place tells whether they were. In JAX, ffi_call(...,
// input_output_aliases={0: 0}) asks for it: XLA then copies x first if anybody
// still needs it, and copies nothing if x is donated.

#include <cstddef>
#include <cstdint>

#include "xla/ffi/api/ffi.h"

namespace {

namespace ffi = ::xla::ffi;

ffi::Error AddOne(ffi::Buffer<ffi::S32> x, ffi::ResultBuffer<ffi::S32> y,
                  ffi::ResultBufferR0<ffi::PRED> in_place) {
  if (!(x.dimensions() == y->dimensions())) {
    return ffi::Error::InvalidArgument(
        "examples.add_one: result y: expected x's shape");
  }
  for (size_t i = 0; i < x.element_count(); ++i) {
    y->typed_data()[i] = x.typed_data()[i] + 1;
  }
  *in_place->typed_data() = x.untyped_data() == y->untyped_data();
  return ffi::Error::Success();
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(
    ExampleAddOne, AddOne,
    ffi::Ffi::Bind()
        .Arg<ffi::Buffer<ffi::S32>>()       // x
        .Ret<ffi::Buffer<ffi::S32>>()       // y
        .Ret<ffi::BufferR0<ffi::PRED>>());  // in_place
