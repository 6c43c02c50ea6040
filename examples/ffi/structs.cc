// Attributes decoded into a struct, an enum and a variant of one's own.
//
// examples.window: (x f64[n]) -> y f64[n], the moving average, maximum or
// minimum over a window. Attributes: window = {size = s64, edge = f64}, kind =
// u8 (the enum's number), and pad, a string or an f64.

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string_view>
#include <variant>
#include <vector>

#include "xla/ffi/api/ffi.h"

namespace ffi_examples {

struct Window {
  int64_t size;
  double edge;
};

enum class Kind : uint8_t { kMean = 0, kMax = 1, kMin = 2 };

}  // namespace ffi_examples

// Outside of every namespace, and before the handlers that use them.
XLA_FFI_REGISTER_STRUCT_ATTR_DECODING(ffi_examples::Window,
                                      ::xla::ffi::StructMember<int64_t>("size"),
                                      ::xla::ffi::StructMember<double>("edge"));
XLA_FFI_REGISTER_ENUM_ATTR_DECODING(ffi_examples::Kind);

namespace ffi_examples {
namespace {

namespace ffi = ::xla::ffi;

using Doubles = ffi::BufferR1<ffi::F64>;
using Pad = std::variant<std::string_view, double>;

double Reduce(Kind kind, const std::vector<double>& values) {
  switch (kind) {
    case Kind::kMax:
      return *std::max_element(values.begin(), values.end());
    case Kind::kMin:
      return *std::min_element(values.begin(), values.end());
    default:
      return std::accumulate(values.begin(), values.end(), 0.0) /
             static_cast<double>(values.size());
  }
}

ffi::Error Move(Doubles x, ffi::Result<Doubles> y, Window window, Kind kind,
                Pad pad) {
  const int64_t n = static_cast<int64_t>(x.element_count());
  if (!(x.dimensions() == y->dimensions()) || window.size < 1 ||
      window.size > 1024 || kind > Kind::kMin) {
    return ffi::Error::InvalidArgument(
        "examples.window: expected a size from 1 to 1024, a kind from 0 to 2");
  }
  // The string "edge" stands for the window's own value at the edge.
  const double* number = std::get_if<double>(&pad);
  const double beyond = number != nullptr ? *number : window.edge;
  for (int64_t i = 0; i < n; ++i) {
    std::vector<double> values;
    for (int64_t j = i; j < i + window.size; ++j) {
      values.push_back(j < n ? x.typed_data()[j] : beyond);
    }
    y->typed_data()[i] = Reduce(kind, values);
  }
  return ffi::Error::Success();
}

}  // namespace
}  // namespace ffi_examples

XLA_FFI_DEFINE_HANDLER_SYMBOL(ExampleWindow, ffi_examples::Move,
                              xla::ffi::Ffi::Bind()
                                  .Arg<ffi_examples::Doubles>()  // x
                                  .Ret<ffi_examples::Doubles>()  // y
                                  .Attr<ffi_examples::Window>("window")
                                  .Attr<ffi_examples::Kind>("kind")
                                  .Attr<ffi_examples::Pad>("pad"));
