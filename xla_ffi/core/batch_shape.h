// An array seen as rows: the minor dimension, and all before it as one batch;
// or as lines along any axis.

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

struct AxisShape {
  int64_t outer;   // product of the axes before
  int64_t length;  // of the axis itself
  int64_t inner;   // product of the axes after it
};

// 0 <= axis < rank.
inline AxisShape SplitAxis(xla::ffi::Span<const int64_t> dims, int64_t axis) {
  AxisShape shape = {1, dims[axis], 1};
  const auto rank = static_cast<int64_t>(dims.size());
  for (int64_t i = 0; i < axis; ++i) shape.outer *= dims[i];
  for (int64_t i = axis + 1; i < rank; ++i) shape.inner *= dims[i];
  return shape;
}

}  // namespace xla_ffi_kit

#endif  // XLA_FFI_CORE_BATCH_SHAPE_H_
