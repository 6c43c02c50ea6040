// Types of one's own: how the FFI's binding finds and decodes them.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string_view>
#include <variant>
#include <vector>

#include "xla/ffi/api/ffi.h"

// --- Attributes decoded into a struct, an enum and a variant of one's own
// examples.window: (x f64[n]) -> y f64[n], the moving average, maximum or
// minimum over a window. Attributes: window = {size = s64, edge = f64}, kind =
// u8 (the enum's number), and pad, a string or an f64.

namespace ffi_examples {

namespace ffi = ::xla::ffi;

using Doubles = ffi::BufferR1<ffi::F64>;

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

XLA_FFI_DEFINE_HANDLER_SYMBOL(ExampleWindow, Move,
                              ffi::Ffi::Bind()
                                  .Arg<Doubles>()  // x
                                  .Ret<Doubles>()  // y
                                  .Attr<Window>("window")
                                  .Attr<Kind>("kind")
                                  .Attr<Pad>("pad"));

// --- Operands, results and attributes as types of one's own
// examples.trace: (m f32[n,n]) -> f32[], the sum of the diagonal in the unit
// that the string attribute `unit` names. A Matrix is a square f32 buffer of
// rank 2, and a Unit one of two words: who takes one has nothing left to check.

struct Matrix {
  float* data;
  int64_t size;
};

struct Unit {
  float scale;
};

}  // namespace ffi_examples

// Decoding is found through specialisations in the FFI's own namespace. A
// failure is a message for the DiagnosticEngine, and nothing instead of a
// value.
namespace xla::ffi {

template <>
struct ArgDecoding<ffi_examples::Matrix> {
  static std::optional<ffi_examples::Matrix> Decode(
      XLA_FFI_ArgType type, void* arg, DiagnosticEngine& diagnostic) {
    const std::optional<BufferR2<F32>> buffer =
        ArgDecoding<BufferR2<F32>>::Decode(type, arg, diagnostic);
    if (!buffer.has_value()) return std::nullopt;
    const auto dims = buffer->dimensions();
    if (dims[0] != dims[1]) {
      return diagnostic.Emit("expected a square matrix, got ")
             << dims[0] << " x " << dims[1];
    }
    return ffi_examples::Matrix{buffer->typed_data(), dims[0]};
  }
};

template <>
struct AttrDecoding<ffi_examples::Unit> {
  using Type = ffi_examples::Unit;

  static std::optional<Type> Decode(XLA_FFI_AttrType type, void* attr,
                                    DiagnosticEngine& diagnostic) {
    const std::optional<std::string_view> name =
        AttrDecoding<std::string_view>::Decode(type, attr, diagnostic);
    if (!name.has_value()) return std::nullopt;
    if (*name == "metre") return Type{1.0f};
    if (*name == "inch") return Type{1 / 0.0254f};
    return diagnostic.Emit("expected the unit metre or inch, got ") << *name;
  }
};

}  // namespace xla::ffi

namespace ffi_examples {

static ffi::Error Trace(Matrix m, ffi::ResultBufferR0<ffi::F32> trace,
                        Unit unit) {
  float sum = 0;
  for (int64_t i = 0; i < m.size; ++i) sum += m.data[i * (m.size + 1)];
  *trace->typed_data() = sum * unit.scale;
  return ffi::Error::Success();
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(ExampleTrace, Trace,
                              ffi::Ffi::Bind()
                                  .Arg<Matrix>()                   // m
                                  .Ret<ffi::BufferR0<ffi::F32>>()  // trace
                                  .Attr<Unit>("unit"));

}  // namespace ffi_examples

// --- The auto-binding form: the binding follows from the function's signature
// examples.auto_affine: (x f64[n]) -> y = slope x + offset, with the f64
// attributes slope and offset; examples.auto_run_id: () -> s64[], the run id;
// examples.auto_sum: f64 attributes of any names -> f64[], their sum.
//
// Shorter, and without a place for the comments that say which argument is
// which; the kit's own handlers spell their bindings out.

// How a parameter of a type of its own is bound; here one that the FFI knows,
// and for which its headers declare no automatic binding.
template <>
struct xla::ffi::CtxBinding<xla::ffi::RunId> {
  using Ctx = xla::ffi::RunId;
};

namespace ffi_examples {

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

XLA_FFI_DEFINE_HANDLER_SYMBOL(ExampleAutoAffine, Affine);
XLA_FFI_DEFINE_HANDLER_SYMBOL(ExampleAutoRunId, GetRunId);
XLA_FFI_DEFINE_HANDLER_SYMBOL(ExampleAutoSum, Sum);

}  // namespace ffi_examples
