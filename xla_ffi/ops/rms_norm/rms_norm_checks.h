// Checks and pointers that the handlers of RMS normalisation share.

#ifndef XLA_FFI_OPS_RMS_NORM_RMS_NORM_CHECKS_H_
#define XLA_FFI_OPS_RMS_NORM_RMS_NORM_CHECKS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "xla/ffi/api/ffi.h"
#include "xla_ffi/core/accumulation_type.h"
#include "xla_ffi/core/attributes.h"
#include "xla_ffi/core/batch_shape.h"
#include "xla_ffi/core/checks.h"
#include "xla_ffi/core/dtype_dispatch.h"

namespace xla_ffi_kit::rms_norm_internal {

namespace ffi = ::xla::ffi;

// A buffer that a variant of the operation may lack.
using MaybeBuffer = std::optional<ffi::AnyBuffer>;

template <typename T>
T* Data(const MaybeBuffer& buffer) {
  return buffer ? static_cast<T*>(buffer->untyped_data()) : nullptr;
}

inline ffi::Error CheckX(const Place& where, ffi::AnyBuffer x) {
  if (ffi::Error e = CheckRankAtLeast(where, x, 1); e.failure()) return e;
  if (ffi::Error e = CheckLastAxisNotEmpty(where, x); e.failure()) return e;
  return CheckData(where, x);
}

inline ffi::Error CheckLikeX(const Place& where, const MaybeBuffer& buffer,
                             ffi::AnyBuffer x) {
  if (!buffer) return {};
  return CheckLike(where, *buffer, x, "like operand x");
}

// [P..., n], where [P...] begins x's batch axes.
inline ffi::Error CheckWeight(const Place& where, const MaybeBuffer& weight,
                              ffi::AnyBuffer x) {
  if (!weight) return {};
  ffi::Error e = CheckDtype(where, *weight, x.element_type(), "like operand x");
  if (e.failure()) return e;
  const Dimensions got = weight->dimensions(), of_x = x.dimensions();
  const bool fits = got.size() >= 1 && got.size() <= of_x.size() &&
                    got.back() == of_x.back() &&
                    BatchAxes(got) == of_x.first(got.size() - 1);
  if (fits) return CheckData(where, *weight);
  return InvalidArgument(
      where,
      "the last axis, or the first axes and the last, of operand x, shape " +
          ShapeText(of_x),
      "shape " + ShapeText(got));
}

// The scale that the forward returns and the backward takes.
template <typename T>
ffi::Error CheckScale(const Place& where, const MaybeBuffer& scale,
                      ffi::AnyBuffer x) {
  if (!scale) return {};
  ffi::Error e = CheckDtype(where, *scale, kDtypeOf<AccumulationType<T>>,
                            "to accumulate x's " + DtypeName(kDtypeOf<T>));
  if (e.failure()) return e;
  e = CheckShape(where, *scale, BatchAxes(x.dimensions()),
                 "like operand x without its last axis");
  if (e.failure()) return e;
  return CheckData(where, *scale);
}

// The attribute eps, checked.
inline ffi::ErrorOr<double> GetEps(std::string_view operation,
                                   const ffi::Dictionary& attributes) {
  const ffi::ErrorOr<double> eps =
      GetOnlyF64Attribute(operation, "eps", attributes);
  if (eps.has_error()) return eps;
  ffi::Error e = CheckFiniteNotNegative({operation, "attribute eps"}, *eps);
  if (e.failure()) return ffi::Unexpected(e);
  return eps;
}

// Rows that share a weight: 0 if there are none.
inline int64_t RowsPerWeight(int64_t rows, const MaybeBuffer& weight) {
  const int64_t weights =
      weight ? SplitLastAxis(weight->dimensions()).rows : int64_t{1};
  return weights == 0 ? 0 : rows / weights;
}

// The operands and results of any forward handler.
struct ForwardCall {
  std::string_view operation;
  ffi::AnyBuffer x;
  MaybeBuffer weight, residual;
  ffi::AnyBuffer y;
  MaybeBuffer sum, scale;
  bool is_block = false;  // y = max(h scale weight + h, 0)
};

// All but the scale.
inline ffi::Error CheckForward(const ForwardCall& call) {
  const auto place = [&](std::string_view argument) {
    return Place{call.operation, argument};
  };
  ffi::Error e = CheckX(place("operand x"), call.x);
  if (e.success())
    e = CheckWeight(place("operand weight"), call.weight, call.x);
  if (e.success()) {
    e = CheckLikeX(place("operand residual"), call.residual, call.x);
  }
  if (e.success()) e = CheckLikeX(place("result y"), call.y, call.x);
  if (e.success()) e = CheckLikeX(place("result sum"), call.sum, call.x);
  return e;
}

// The operands and results of any backward handler.
struct BackwardCall {
  std::string_view operation;
  MaybeBuffer scale;
  ffi::AnyBuffer x;
  MaybeBuffer weight;
  ffi::AnyBuffer ct;
  MaybeBuffer ct_sum;
  ffi::AnyBuffer dx;
  MaybeBuffer dweight;
  double eps;
};

// All but the scale.
inline ffi::Error CheckBackward(const BackwardCall& call) {
  const auto place = [&](std::string_view argument) {
    return Place{call.operation, argument};
  };
  ffi::Error e = CheckX(place("operand x"), call.x);
  if (e.success())
    e = CheckWeight(place("operand weight"), call.weight, call.x);
  if (e.success()) e = CheckLikeX(place("operand ct"), call.ct, call.x);
  if (e.success()) e = CheckLikeX(place("operand ct_sum"), call.ct_sum, call.x);
  if (e.success()) e = CheckLikeX(place("result dx"), call.dx, call.x);
  if (e.success() && call.dweight) {
    e = CheckLike(place("result dweight"), *call.dweight, *call.weight,
                  "like operand weight");
  }
  return e;
}

}  // namespace xla_ffi_kit::rms_norm_internal

#endif  // XLA_FFI_OPS_RMS_NORM_RMS_NORM_CHECKS_H_
