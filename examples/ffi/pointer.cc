// A pointer as an attribute: an object of this process, by address.
//
// examples.lookup: (i s32[n]) -> y f64[n], y = table[i], where the attribute
// `table` is the address, an s64, of a Table. The object must outlive every run
// of every program that was compiled with its address; a program that is saved
// and read by another process must not hold one. State is safer where it does.

#include <cstddef>
#include <cstdint>
#include <string>

#include "xla/ffi/api/ffi.h"

namespace ffi_examples {

// As ctypes lays it out, so that a test can make one from Python.
struct Table {
  const double* values;
  int64_t size;
};

namespace {

namespace ffi = ::xla::ffi;

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
}  // namespace ffi_examples

XLA_FFI_DEFINE_HANDLER_SYMBOL(
    ExampleLookup, ffi_examples::Lookup,
    xla::ffi::Ffi::Bind()
        .Arg<xla::ffi::BufferR1<xla::ffi::S32>>()  // i
        .Ret<xla::ffi::BufferR1<xla::ffi::F64>>()  // y
        .Attr<xla::ffi::Pointer<const ffi_examples::Table>>("table"));
