// The number of elements of an array, and the array as rows (the last axis,
// with all axes before it as one batch) or as lines along any axis.

#ifndef XLA_FFI_CORE_BATCH_SHAPE_H_
#define XLA_FFI_CORE_BATCH_SHAPE_H_

#include <cstddef>
#include <cstdint>

#include "xla/ffi/api/ffi.h"

namespace xla_ffi_kit {

// Returns the product of sizes of axes, none negative. It is 0 if 64 bits do
// not hold it: no memory has as many elements, so another axis is empty, as in
// [2^40, 2^40, 0], and there is nothing to do.
inline int64_t Product(xla::ffi::Span<const int64_t> dims) {
  int64_t product = 1;
  for (const int64_t dim : dims) {
    if (__builtin_mul_overflow(product, dim, &product)) return 0;
  }
  return product;
}

struct BatchShape {
  int64_t rows;    // product of all axes but the last; 1 for rank 1
  int64_t length;  // of the last axis
};

// Returns the batch axes of a shape of rank >= 1.
inline xla::ffi::Span<const int64_t> BatchAxes(
    xla::ffi::Span<const int64_t> dims) {
  return dims.first(dims.size() - 1);
}

// Rank >= 1.
inline BatchShape SplitLastAxis(xla::ffi::Span<const int64_t> dims) {
  return {Product(BatchAxes(dims)), dims.back()};
}

struct AxisShape {
  int64_t outer;   // product of the axes before
  int64_t length;  // of the axis itself
  int64_t inner;   // product of the axes after it
};

// Requires 0 <= axis < rank.
inline AxisShape SplitAxis(xla::ffi::Span<const int64_t> dims, int64_t axis) {
  const auto before = static_cast<size_t>(axis);
  return {Product(dims.first(before)), dims[axis],
          Product(dims.last(dims.size() - before - 1))};
}

}  // namespace xla_ffi_kit

#endif  // XLA_FFI_CORE_BATCH_SHAPE_H_
