// The auto-binding form: the binding follows from the function's own signature.
//
// examples.auto_affine: (x f64[n]) -> y = slope x + offset, with the f64
// attributes slope and offset; examples.auto_run_id: () -> s64[], the run id;
// examples.auto_sum: f64 attributes of any names -> f64[], their sum.
//
// Shorter, and without a place for the comments that say which argument is
// which; the kit's own handlers spell their bindings out.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "xla/ffi/api/ffi.h"

// How a parameter of a type of its own is bound; here one that the FFI knows,
// and for which its headers declare no automatic binding.
template <>
struct xla::ffi::CtxBinding<xla::ffi::RunId> {
  using Ctx = xla::ffi::RunId;
};

namespace ffi_examples {

namespace ffi = ::xla::ffi;

using Doubles = ffi::BufferR1<ffi::F64>;

// The name of an attribute is a template argument: an object with linkage.
inline constexpr char kSlope[] = "slope";
inline constexpr char kOffset[] = "offset";

static ffi::Error Affine(Doubles x, ffi::Result<Doubles> y,
                         ffi::Attr<double, kSlope> slope,
                         ffi::Attr<double, kOffset> offset) {
  if (!(x.dimensions() == y->dimensions())) {
    return ffi::Error::InvalidArgument(
        "examples.auto_affine: expected a result as long as operand x");
  }
  for (size_t i = 0; i < x.element_count(); ++i) {
    y->typed_data()[i] = *slope * x.typed_data()[i] + *offset;
  }
  return ffi::Error::Success();
}

static ffi::Error GetRunId(ffi::RunId run,
                           ffi::Result<ffi::BufferR0<ffi::S64>> y) {
  *y->typed_data() = run.run_id;
  return ffi::Error::Success();
}

static ffi::Error Sum(ffi::Result<ffi::BufferR0<ffi::F64>> y,
                      ffi::Dictionary terms) {
  double sum = 0;
  for (const std::string_view name : terms) {
    const ffi::ErrorOr<double> term = terms.get<double>(name);
    if (term.has_error()) return term.error();
    sum += *term;
  }
  *y->typed_data() = sum;
  return ffi::Error::Success();
}

}  // namespace ffi_examples

XLA_FFI_DEFINE_HANDLER_SYMBOL(ExampleAutoAffine, ffi_examples::Affine);
XLA_FFI_DEFINE_HANDLER_SYMBOL(ExampleAutoRunId, ffi_examples::GetRunId);
XLA_FFI_DEFINE_HANDLER_SYMBOL(ExampleAutoSum, ffi_examples::Sum);
