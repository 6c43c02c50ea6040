// AnyBuffer: one handler for every dtype and rank.
//
// examples.real_part: (x T[...]) -> the real part of each element, in the
// dtype that ToReal() names. Real dtypes are copied, those of 4 and 8 bits too:
// for these the bytes are all that is needed.

#include <complex>
#include <cstddef>
#include <cstring>

#include "xla/ffi/api/ffi.h"

namespace {

namespace ffi = ::xla::ffi;

template <ffi::DataType dtype>
void RealPart(ffi::AnyBuffer x, ffi::AnyBuffer y) {
  using Complex = ffi::NativeType<dtype>;
  using Real = ffi::NativeType<ffi::ToReal(dtype)>;
  static_assert(ffi::IsComplexType<dtype>());
  const Complex* in = x.typed_data<Complex>();
  Real* out = y.typed_data<Real>();
  for (size_t i = 0; i < x.element_count(); ++i) out[i] = in[i].real();
}

ffi::Error RealPartOfAny(ffi::AnyBuffer x, ffi::Result<ffi::AnyBuffer> y) {
  const ffi::DataType dtype = x.element_type();
  if (!(x.dimensions() == y->dimensions()) ||
      y->element_type() != ffi::ToReal(dtype)) {
    return ffi::Error::InvalidArgument(
        "examples.real_part: result y: expected x's shape and real dtype");
  }
  switch (dtype) {
    case ffi::C64:
      RealPart<ffi::C64>(x, *y);
      break;
    case ffi::C128:
      RealPart<ffi::C128>(x, *y);
      break;
    default:
      if (x.size_bytes() == 0) break;  // memcpy wants pointers even for nothing
      std::memcpy(y->untyped_data(), x.untyped_data(), x.size_bytes());
  }
  return ffi::Error::Success();
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(ExampleRealPart, RealPartOfAny,
                              ffi::Ffi::Bind()
                                  .Arg<ffi::AnyBuffer>()    // x
                                  .Ret<ffi::AnyBuffer>());  // y
