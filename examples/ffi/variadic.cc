// Any number of operands and results, of any dtypes.
//
// examples.reverse_operands: (x0, x1, ..., xn) -> (xn, ..., x1, x0). Operands
// that are f32 vectors are negated on the way, so that the handler has to ask
// for each one's type.

#include <cstddef>
#include <cstring>
#include <string>

#include "xla/ffi/api/ffi.h"

namespace {

namespace ffi = ::xla::ffi;

using Vector = ffi::BufferR1<ffi::F32>;

ffi::Error Move(ffi::RemainingArgs& from, size_t i, ffi::RemainingRets& to,
                size_t j) {
  const ffi::ErrorOr<ffi::AnyBuffer> x = from.get<ffi::AnyBuffer>(i);
  if (x.has_error()) return x.error();
  ffi::ErrorOr<ffi::Result<ffi::AnyBuffer>> y = to.get<ffi::AnyBuffer>(j);
  if (y.has_error()) return y.error();
  if (x->element_type() != (*y)->element_type() ||
      !(x->dimensions() == (*y)->dimensions())) {
    return ffi::Error::InvalidArgument(
        "examples.reverse_operands: result " + std::to_string(j) +
        ": expected it to be like operand " + std::to_string(i));
  }
  if (from.isa<Vector>(i) && to.isa<Vector>(j)) {
    const Vector vector = *from.get<Vector>(i);
    float* out = (*to.get<Vector>(j))->typed_data();
    for (size_t k = 0; k < vector.element_count(); ++k) {
      out[k] = -vector.typed_data()[k];
    }
  } else if (x->size_bytes() > 0) {
    std::memcpy((*y)->untyped_data(), x->untyped_data(), x->size_bytes());
  }
  return ffi::Error::Success();
}

ffi::Error ReverseOperands(ffi::RemainingArgs x, ffi::RemainingRets y) {
  if (x.empty() || x.size() != y.size()) {
    return ffi::Error::InvalidArgument(
        "examples.reverse_operands: expected one result per operand and at "
        "least one, got " +
        std::to_string(x.size()) + " operands and " + std::to_string(y.size()) +
        " results");
  }
  for (size_t i = 0; i < x.size(); ++i) {
    ffi::Error error = Move(x, i, y, y.size() - 1 - i);
    if (error.failure()) return error;
  }
  return ffi::Error::Success();
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(ExampleReverseOperands, ReverseOperands,
                              ffi::Ffi::Bind()
                                  .RemainingArgs()    // x
                                  .RemainingRets());  // y, backwards
