// Operands, results and attributes as types of one's own.
//
// examples.trace: (m f32[n,n]) -> f32[], the sum of the diagonal in the unit
// that the string attribute `unit` names. A Matrix is a square f32 buffer of
// rank 2, and a Unit one of two words: who takes one has nothing left to check.

#include <cstdint>
#include <optional>
#include <string_view>

#include "xla/ffi/api/ffi.h"

namespace ffi_examples {

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

static xla::ffi::Error Trace(Matrix m,
                             xla::ffi::ResultBufferR0<xla::ffi::F32> trace,
                             Unit unit) {
  float sum = 0;
  for (int64_t i = 0; i < m.size; ++i) sum += m.data[i * (m.size + 1)];
  *trace->typed_data() = sum * unit.scale;
  return xla::ffi::Error::Success();
}

}  // namespace ffi_examples

XLA_FFI_DEFINE_HANDLER_SYMBOL(ExampleTrace, ffi_examples::Trace,
                              xla::ffi::Ffi::Bind()
                                  .Arg<ffi_examples::Matrix>()  // m
                                  .Ret<xla::ffi::BufferR0<xla::ffi::F32>>()
                                  .Attr<ffi_examples::Unit>("unit"));
