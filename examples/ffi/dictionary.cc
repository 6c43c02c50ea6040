// Dictionaries: attributes whose names are not known beforehand.
//
// examples.polynomial: (x f64[n]) -> y f64[n]. Each attribute "x<k>" is the
// coefficient of the k-th power. The dictionary "options" may hold a "shift"
// of x, and a dictionary "output" with a "scale" of y.

#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <string>
#include <string_view>

#include "xla/ffi/api/ffi.h"

namespace {

namespace ffi = ::xla::ffi;

using Doubles = ffi::BufferR1<ffi::F64>;

// The number of that name, or `otherwise` where there is none.
ffi::ErrorOr<double> Get(const ffi::Dictionary& from, std::string_view name,
                         double otherwise) {
  if (!from.contains(name)) return otherwise;
  return from.get<double>(name);
}

ffi::Error Polynomial(Doubles x, ffi::Result<Doubles> y, ffi::Dictionary all) {
  if (!(x.dimensions() == y->dimensions())) {
    return ffi::Error::InvalidArgument("examples.polynomial: unequal lengths");
  }
  double shift = 0, scale = 1;
  if (all.contains("options")) {
    const ffi::ErrorOr<ffi::Dictionary> options =
        all.get<ffi::Dictionary>("options");
    if (options.has_error()) return options.error();
    const ffi::ErrorOr<double> got = Get(*options, "shift", 0);
    if (got.has_error()) return got.error();
    shift = *got;
    if (options->contains("output")) {
      const auto output = options->get<ffi::Dictionary>("output");
      if (output.has_error()) return output.error();
      const ffi::ErrorOr<double> of_output = Get(*output, "scale", 1);
      if (of_output.has_error()) return of_output.error();
      scale = *of_output;
    }
  }
  for (size_t i = 0; i < x.element_count(); ++i) {
    double sum = 0;
    for (const std::string_view name : all) {
      if (name == "options") continue;
      // contains<T>() is true only for an attribute of type T.
      if (name.substr(0, 1) != "x" || !all.contains<double>(name)) {
        return ffi::Error::InvalidArgument("examples.polynomial: attribute " +
                                           std::string(name) +
                                           ": expected x<k>, a scalar f64");
      }
      // A name is not terminated, so it cannot be parsed where it is.
      const double power = std::atof(std::string(name.substr(1)).c_str());
      sum +=
          *all.get<double>(name) * std::pow(x.typed_data()[i] + shift, power);
    }
    y->typed_data()[i] = scale * sum;
  }
  return ffi::Error::Success();
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(ExamplePolynomial, Polynomial,
                              ffi::Ffi::Bind()
                                  .Arg<Doubles>()  // x
                                  .Ret<Doubles>()  // y
                                  .Attrs());       // x<k>, options
