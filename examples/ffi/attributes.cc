// Attributes: values that are known when a program is compiled.
//
// examples.scalars takes one attribute of each real scalar type and a string,
// examples.complex_scalars the complex ones, and examples.arrays one array of
// each element type; they write what they got to f64 results, so that a test
// can compare. Each attribute is bound by name; a missing, additional or
// wrongly typed one is an error before the handler runs.

#include <complex>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "xla/ffi/api/ffi.h"

namespace {

namespace ffi = ::xla::ffi;

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
