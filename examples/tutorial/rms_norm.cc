// RMS normalization over the last axis, forward and backward, as handlers of
// XLA's FFI: chapter 1 of docs/tutorial.

#include <cmath>
#include <cstdint>

#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

// y = scale x, where scale = 1 / sqrt(mean(x^2) + eps), for one row of n
// elements. Returns the scale.
float NormalizeRow(float eps, int64_t n, const float* x, float* y) {
  float squares = 0;
  for (int64_t i = 0; i < n; ++i) squares += x[i] * x[i];
  const float scale = 1 / std::sqrt(squares / static_cast<float>(n) + eps);
  for (int64_t i = 0; i < n; ++i) y[i] = scale * x[i];
  return scale;
}

// The length of the last axis, or an error where there is none.
ffi::ErrorOr<int64_t> RowLength(const ffi::Buffer<ffi::F32>& x) {
  const auto dims = x.dimensions();
  if (dims.size() > 0 && dims.back() > 0) return dims.back();
  return ffi::Unexpected(ffi::Error::InvalidArgument(
      "rms_norm: operand x: expected a last axis of at least one element"));
}

ffi::Error RmsNormImpl(float eps, ffi::Buffer<ffi::F32> x,
                       ffi::ResultBuffer<ffi::F32> y) {
  const ffi::ErrorOr<int64_t> n = RowLength(x);
  if (n.has_error()) return n.error();
  const auto size = static_cast<int64_t>(x.element_count());
  for (int64_t i = 0; i < size; i += *n) {
    NormalizeRow(eps, *n, x.typed_data() + i, y->typed_data() + i);
  }
  return ffi::Error::Success();
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(RmsNorm, RmsNormImpl,
                              ffi::Ffi::Bind()
                                  .Attr<float>("eps")
                                  .Arg<ffi::Buffer<ffi::F32>>()  // x
                                  .Ret<ffi::Buffer<ffi::F32>>()  // y
);

// The same, and the scale of each row, which the backward pass takes.
ffi::Error RmsNormFwdImpl(float eps, ffi::Buffer<ffi::F32> x,
                          ffi::ResultBuffer<ffi::F32> y,
                          ffi::ResultBuffer<ffi::F32> scale) {
  const ffi::ErrorOr<int64_t> n = RowLength(x);
  if (n.has_error()) return n.error();
  const auto size = static_cast<int64_t>(x.element_count());
  for (int64_t i = 0, row = 0; i < size; i += *n, ++row) {
    scale->typed_data()[row] =
        NormalizeRow(eps, *n, x.typed_data() + i, y->typed_data() + i);
  }
  return ffi::Error::Success();
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(RmsNormFwd, RmsNormFwdImpl,
                              ffi::Ffi::Bind()
                                  .Attr<float>("eps")
                                  .Arg<ffi::Buffer<ffi::F32>>()  // x
                                  .Ret<ffi::Buffer<ffi::F32>>()  // y
                                  .Ret<ffi::Buffer<ffi::F32>>()  // scale
);

// dx = scale ct - x scale^3 mean(x ct), for each row.
ffi::Error RmsNormBwdImpl(ffi::Buffer<ffi::F32> scale, ffi::Buffer<ffi::F32> x,
                          ffi::Buffer<ffi::F32> ct,
                          ffi::ResultBuffer<ffi::F32> dx) {
  const ffi::ErrorOr<int64_t> n = RowLength(x);
  if (n.has_error()) return n.error();
  if (ct.element_count() != x.element_count() ||
      scale.element_count() * *n != x.element_count()) {
    return ffi::Error::InvalidArgument(
        "rms_norm_bwd: expected a ct of x's shape and a scale for each row");
  }
  const auto size = static_cast<int64_t>(x.element_count());
  for (int64_t i = 0, row = 0; i < size; i += *n, ++row) {
    const float *x_row = x.typed_data() + i, *ct_row = ct.typed_data() + i;
    const float s = scale.typed_data()[row];
    float products = 0;
    for (int64_t j = 0; j < *n; ++j) products += x_row[j] * ct_row[j];
    const float factor = s * s * s * products / static_cast<float>(*n);
    for (int64_t j = 0; j < *n; ++j) {
      dx->typed_data()[i + j] = s * ct_row[j] - factor * x_row[j];
    }
  }
  return ffi::Error::Success();
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(RmsNormBwd, RmsNormBwdImpl,
                              ffi::Ffi::Bind()
                                  .Arg<ffi::Buffer<ffi::F32>>()  // scale
                                  .Arg<ffi::Buffer<ffi::F32>>()  // x
                                  .Arg<ffi::Buffer<ffi::F32>>()  // ct
                                  .Ret<ffi::Buffer<ffi::F32>>()  // dx
);
