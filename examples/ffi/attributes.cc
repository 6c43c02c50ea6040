// Attributes: values that are known when a program is compiled.

#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "xla/ffi/api/ffi.h"

namespace ffi_examples {

namespace ffi = ::xla::ffi;

// --- Scalars, strings and arrays
// examples.scalars takes one attribute of each real scalar type and a string,
// examples.complex_scalars the complex ones, and examples.arrays one array of
// each element type; they write what they got to f64 results, so that a test
// can compare. Each attribute is bound by name; a missing, additional or
// wrongly typed one is an error before the handler runs.

namespace {

using Doubles = ffi::BufferR1<ffi::F64>;

template <typename... Ts>
ffi::Error Write(Doubles to, Ts... values) {
  if (to.element_count() != sizeof...(values)) {
    return ffi::Error::InvalidArgument(
        "expected a result with one element per attribute");
  }
  double* out = to.typed_data();
  ((*out++ = static_cast<double>(values)), ...);
  return ffi::Error::Success();
}

ffi::Error Scalars(ffi::Result<Doubles> y, bool pred, int8_t s8, int16_t s16,
                   int32_t s32, int64_t s64, uint8_t u8, uint16_t u16,
                   uint32_t u32, uint64_t u64, float f32, double f64,
                   std::string_view text) {
  return Write(*y, pred, s8, s16, s32, s64, u8, u16, u32, u64, f32, f64,
               text.size());
}

// Apart from the others because JAX has no way to pass them.
ffi::Error ComplexScalars(ffi::Result<Doubles> y, std::complex<float> c64,
                          std::complex<double> c128) {
  return Write(*y, c64.real(), c64.imag(), c128.real(), c128.imag());
}

template <typename T>
double Sum(ffi::Span<const T> array) {
  double sum = 0;
  for (const T value : array) sum += static_cast<double>(value);
  return sum;
}

ffi::Error Arrays(ffi::Result<Doubles> y, ffi::Span<const int8_t> s8,
                  ffi::Span<const int16_t> s16, ffi::Span<const int32_t> s32,
                  ffi::Span<const int64_t> s64, ffi::Span<const uint8_t> u8,
                  ffi::Span<const uint16_t> u16, ffi::Span<const uint32_t> u32,
                  ffi::Span<const uint64_t> u64, ffi::Span<const float> f32,
                  ffi::Span<const double> f64) {
  return Write(*y, Sum(s8), Sum(s16), Sum(s32), Sum(s64), Sum(u8), Sum(u16),
               Sum(u32), Sum(u64), Sum(f32), Sum(f64));
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(ExampleScalars, Scalars,
                              ffi::Ffi::Bind()
                                  .Ret<Doubles>()
                                  .Attr<bool>("pred")
                                  .Attr<int8_t>("s8")
                                  .Attr<int16_t>("s16")
                                  .Attr<int32_t>("s32")
                                  .Attr<int64_t>("s64")
                                  .Attr<uint8_t>("u8")
                                  .Attr<uint16_t>("u16")
                                  .Attr<uint32_t>("u32")
                                  .Attr<uint64_t>("u64")
                                  .Attr<float>("f32")
                                  .Attr<double>("f64")
                                  .Attr<std::string_view>("text"));

XLA_FFI_DEFINE_HANDLER_SYMBOL(ExampleComplexScalars, ComplexScalars,
                              ffi::Ffi::Bind()
                                  .Ret<Doubles>()
                                  .Attr<std::complex<float>>("c64")
                                  .Attr<std::complex<double>>("c128"));

XLA_FFI_DEFINE_HANDLER_SYMBOL(ExampleArrays, Arrays,
                              ffi::Ffi::Bind()
                                  .Ret<Doubles>()
                                  .Attr<ffi::Span<const int8_t>>("s8")
                                  .Attr<ffi::Span<const int16_t>>("s16")
                                  .Attr<ffi::Span<const int32_t>>("s32")
                                  .Attr<ffi::Span<const int64_t>>("s64")
                                  .Attr<ffi::Span<const uint8_t>>("u8")
                                  .Attr<ffi::Span<const uint16_t>>("u16")
                                  .Attr<ffi::Span<const uint32_t>>("u32")
                                  .Attr<ffi::Span<const uint64_t>>("u64")
                                  .Attr<ffi::Span<const float>>("f32")
                                  .Attr<ffi::Span<const double>>("f64"));

// --- Dictionaries: attributes whose names are not known beforehand
// examples.polynomial: (x f64[n]) -> y f64[n]. Each attribute "x<k>" is the
// coefficient of the k-th power. The dictionary "options" may hold a "shift"
// of x, and a dictionary "output" with a "scale" of y.

namespace {

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

// --- A pointer: an object of this process, by address
// examples.lookup: (i s32[n]) -> y f64[n], y = table[i], where the attribute
// `table` is the address, an s64, of a Table. The object must outlive every run
// of every program that was compiled with its address; a program that is saved
// and read by another process must not hold one. State is safer where it does.

// As ctypes lays it out, so that a test can make one from Python.
struct Table {
  const double* values;
  int64_t size;
};

namespace {

ffi::Error Lookup(ffi::BufferR1<ffi::S32> i, ffi::ResultBufferR1<ffi::F64> y,
                  const Table* table) {
  if (!(i.dimensions() == y->dimensions()) || table == nullptr) {
    return ffi::Error::InvalidArgument(
        "examples.lookup: expected a result as long as operand i, and a table");
  }
  for (size_t k = 0; k < i.element_count(); ++k) {
    const int32_t index = i.typed_data()[k];
    if (index < 0 || index >= table->size) {
      return ffi::Error(ffi::ErrorCode::kOutOfRange,
                        "examples.lookup: operand i: expected indices 0 to " +
                            std::to_string(table->size - 1) + ", got " +
                            std::to_string(index));
    }
    y->typed_data()[k] = table->values[index];
  }
  return ffi::Error::Success();
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(ExampleLookup, Lookup,
                              ffi::Ffi::Bind()
                                  .Arg<ffi::BufferR1<ffi::S32>>()  // i
                                  .Ret<ffi::BufferR1<ffi::F64>>()  // y
                                  .Attr<ffi::Pointer<const Table>>("table"));

}  // namespace ffi_examples
