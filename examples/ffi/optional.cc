// Operands and results that a call may leave out: the last ones.
//
// examples.scale: (x f32[...], factor f32[]?) -> (y like x, sum f32[]?), y =
// factor x, and its sum if the call has a second result.
//
// Bound as AnyBuffer and checked here: with OptionalArg<Buffer<F32>> the FFI
// takes an operand of another type for one that is not there.

#include <cstddef>
#include <optional>

#include "xla/ffi/api/ffi.h"

namespace {

namespace ffi = ::xla::ffi;

using Array = ffi::Buffer<ffi::F32>;

bool IsScalar(ffi::AnyBuffer buffer) {
  return buffer.element_type() == ffi::F32 && buffer.dimensions().size() == 0;
}

ffi::Error Scale(Array x, std::optional<ffi::AnyBuffer> factor,
                 ffi::Result<Array> y,
                 std::optional<ffi::Result<ffi::AnyBuffer>> sum) {
  if (!(x.dimensions() == y->dimensions())) {
    return ffi::Error::InvalidArgument(
        "examples.scale: result y: expected x's shape");
  }
  if ((factor.has_value() && !IsScalar(*factor)) ||
      (sum.has_value() && !IsScalar(**sum))) {
    return ffi::Error::InvalidArgument(
        "examples.scale: operand factor and result sum: expected f32 of rank "
        "0");
  }
  const float by = factor.has_value() ? *factor->typed_data<float>() : 1;
  float total = 0;
  for (size_t i = 0; i < x.element_count(); ++i) {
    total += y->typed_data()[i] = by * x.typed_data()[i];
  }
  if (sum.has_value()) *(*sum)->typed_data<float>() = total;
  return ffi::Error::Success();
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(ExampleScale, Scale,
                              ffi::Ffi::Bind()
                                  .Arg<Array>()                     // x
                                  .OptionalArg<ffi::AnyBuffer>()    // factor
                                  .Ret<Array>()                     // y
                                  .OptionalRet<ffi::AnyBuffer>());  // sum
