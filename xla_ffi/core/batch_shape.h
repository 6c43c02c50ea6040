// An array seen as rows: the last axis, and everything before it as one batch.

#ifndef XLA_FFI_CORE_BATCH_SHAPE_H_
#define XLA_FFI_CORE_BATCH_SHAPE_H_

#include <cstddef>
#include <cstdint>

#include "xla/ffi/api/ffi.h"

namespace xla_ffi_kit {

struct BatchShape {
  int64_t rows;    // product of all axes but the last; 1 for rank 1
  int64_t length;  // of the last axis
};

// The batch axes of a shape. Rank >= 1.
inline xla::ffi::Span<const int64_t> BatchAxes(
    xla::ffi::Span<const int64_t> dims) {
  return dims.first(dims.size() - 1);
}

// Rank >= 1.
inline BatchShape SplitLastAxis(xla::ffi::Span<const int64_t> dims) {
  BatchShape shape = {1, dims.back()};
  for (const int64_t dim : BatchAxes(dims)) shape.rows *= dim;
  return shape;
}

}  // namespace xla_ffi_kit

#endif  // XLA_FFI_CORE_BATCH_SHAPE_H_
