// From a call frame to the arguments of RMS normalization, checked: the same on
// every platform. The contract is in rms_norm_handler.h.

#ifndef XLA_FFI_OPS_RMS_NORM_RMS_NORM_CALL_H_
#define XLA_FFI_OPS_RMS_NORM_RMS_NORM_CALL_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "xla_ffi/core/handler.h"
#include "xla_ffi/ops/rms_norm/rms_norm.h"

namespace xla_ffi_kit::rms_norm_internal {

namespace ffi = ::xla::ffi;

inline constexpr std::string_view kForward = "xla_ffi_kit.rms_norm";
inline constexpr std::string_view kBackward = "xla_ffi_kit.rms_norm_bwd";
inline constexpr std::string_view kWeightBackward =
    "xla_ffi_kit.rms_norm_weight_bwd";

// A buffer that a call may lack.
using MaybeBuffer = std::optional<ffi::AnyBuffer>;

// Buffer number `index`, or none if there are fewer. RemainingArgs::get() would
// take 5 ns for the error that each buffer might be, half of which are absent.
struct Operands : ffi::RemainingArgs {
  explicit Operands(const ffi::RemainingArgs& args)
      : ffi::RemainingArgs(args) {}

  MaybeBuffer operator[](size_t index) const {
    if (index >= size()) return {};
    void* const buffer = args()->args[offset() + index];
    return ffi::AnyBuffer(static_cast<XLA_FFI_Buffer*>(buffer));
  }
};
struct Results : ffi::RemainingRets {
  explicit Results(const ffi::RemainingRets& rets) : ffi::RemainingRets(rets) {}

  MaybeBuffer operator[](size_t index) const {
    if (index >= size()) return {};
    void* const buffer = rets()->rets[offset() + index];
    return ffi::AnyBuffer(static_cast<XLA_FFI_Buffer*>(buffer));
  }
};

inline ffi::Error CheckCount(const Place& where, size_t count, size_t least,
                             size_t most, std::string_view expected) {
  if (least <= count && count <= most) return {};
  return InvalidArgument(where, expected, std::to_string(count) + " of them");
}

template <typename T>
T* Data(const MaybeBuffer& buffer) {
  return buffer ? static_cast<T*>(buffer->untyped_data()) : nullptr;
}

inline ffi::Error CheckX(std::string_view operation, ffi::AnyBuffer x) {
  const Place where = {operation, "operand x"};
  XLA_FFI_KIT_RETURN_IF_ERROR(CheckRankAtLeast(where, x, 1));
  XLA_FFI_KIT_RETURN_IF_ERROR(CheckLastAxisNotEmpty(where, x));
  return CheckData(where, x);
}

inline ffi::Error CheckLikeX(const Place& where, const MaybeBuffer& buffer,
                             ffi::AnyBuffer x,
                             std::string_view reason = "like operand x") {
  if (!buffer) return {};
  return CheckLike(where, *buffer, x, reason);
}

// [P..., n], where [P...] begins x's batch axes.
inline ffi::Error CheckWeight(std::string_view operation,
                              const MaybeBuffer& weight, ffi::AnyBuffer x) {
  if (!weight) return {};
  const Place where = {operation, "operand weight"};
  XLA_FFI_KIT_RETURN_IF_ERROR(
      CheckDtype(where, *weight, x.element_type(), "like operand x"));
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
                      ffi::AnyBuffer x, std::string_view hint = "") {
  if (!scale) return {};
  const Dimensions rows = BatchAxes(x.dimensions());
  constexpr ffi::DataType kDtype = kDtypeOf<AccumulationType<T>>;
  if (!(scale->dimensions() == rows)) {
    return CheckShape(
        where, *scale, rows,
        "like operand x without its last axis" + std::string(hint));
  }
  if (scale->element_type() != kDtype) {
    return CheckDtype(where, *scale, kDtype,
                      "to accumulate x's " + DtypeName(kDtypeOf<T>));
  }
  return CheckData(where, *scale);
}

// How many weights there are: none of x's rows, or all, may share one.
inline int64_t CountWeights(const MaybeBuffer& weight) {
  return weight ? SplitLastAxis(weight->dimensions()).rows : 1;
}

// The attribute eps, the only one; `expected` says so.
inline ffi::ErrorOr<double> GetEps(std::string_view operation,
                                   std::string_view expected,
                                   const ffi::Dictionary& attributes) {
  if (attributes.size() != 1 || !attributes.contains("eps")) {
    return ffi::Unexpected(InvalidArgument({operation, "attributes"}, expected,
                                           AttributeNames(attributes)));
  }
  const Place where = {operation, "attribute eps"};
  ffi::ErrorOr<double> eps = attributes.get<double>("eps");
  if (eps.has_error()) {
    const ffi::ErrorOr<float> narrow = attributes.get<float>("eps");
    if (narrow.has_error()) {
      return ffi::Unexpected(InvalidArgument(
          where, "a scalar f32 or f64 (in Python, np.float64(value))",
          "another type"));
    }
    eps = ffi::ErrorOr<double>(*narrow);
  }
  XLA_FFI_KIT_RETURN_IF_ERROR(CheckFiniteNotNegative(where, *eps));
  return eps;
}

// --- Forward -----------------------------------------------------------------

struct ForwardCall {
  ffi::AnyBuffer x;
  MaybeBuffer weight, residual;
  ffi::AnyBuffer y;
  MaybeBuffer sum = {}, scale = {};
  double eps = 0;
};

// All but the scale.
inline ffi::Error CheckForward(const ForwardCall& call) {
  XLA_FFI_KIT_RETURN_IF_ERROR(CheckX(kForward, call.x));
  XLA_FFI_KIT_RETURN_IF_ERROR(CheckWeight(kForward, call.weight, call.x));
  XLA_FFI_KIT_RETURN_IF_ERROR(
      CheckLikeX({kForward, "operand residual"}, call.residual, call.x,
                 "like operand x (the order is x, weight, residual)"));
  XLA_FFI_KIT_RETURN_IF_ERROR(
      CheckLikeX({kForward, "result y"}, call.y, call.x));
  return CheckLikeX({kForward, "result sum"}, call.sum, call.x);
}

template <typename T>
RmsNormForwardArgs<T> ArgsOf(const ForwardCall& call) {
  const BatchShape shape = SplitLastAxis(call.x.dimensions());
  const int64_t weights = CountWeights(call.weight);
  RmsNormForwardArgs<T> args;
  args.x = Data<const T>(call.x);
  args.weight = Data<const T>(call.weight);
  args.residual = Data<const T>(call.residual);
  args.y = Data<T>(call.y);
  args.sum = Data<T>(call.sum);
  args.scale = Data<AccumulationType<T>>(call.scale);
  args.rows = shape.rows;
  args.n = shape.length;
  args.rows_per_weight = weights == 0 ? 0 : shape.rows / weights;
  args.eps = call.eps;
  return args;
}

// Returns run(RmsNormForwardArgs<T>) of a call of the forward, or an error.
template <typename Run>
ffi::Error RunForward(const Operands& operands, const Results& results,
                      const ffi::Dictionary& attributes, const Run& run) {
  XLA_FFI_KIT_RETURN_IF_ERROR(CheckCount({kForward, "operands"},
                                         operands.size(), 1, 3,
                                         "x [, weight [, residual]]"));
  const size_t has_sum = operands.size() == 3 ? 1 : 0;
  XLA_FFI_KIT_RETURN_IF_ERROR(CheckCount(
      {kForward, "results"}, results.size(), 1 + has_sum, 2 + has_sum,
      has_sum ? "y, sum [, scale] with an operand residual"
              : "y [, scale] without an operand residual"));
  ForwardCall call = {*operands[0], operands[1], operands[2], *results[0]};
  if (call.residual) call.sum = results[1];
  call.scale = results[call.residual ? 2 : 1];
  XLA_FFI_KIT_ASSIGN_OR_RETURN(call.eps, GetEps(kForward, "{eps}", attributes));
  XLA_FFI_KIT_RETURN_IF_ERROR(CheckForward(call));

  const auto run_as = [&](auto tag) -> ffi::Error {
    using T = typename decltype(tag)::type;
    XLA_FFI_KIT_RETURN_IF_ERROR(CheckScale<T>(
        {kForward, "result scale"}, call.scale, call.x,
        call.residual ? "" : " (a result sum needs an operand residual)"));
    return run(ArgsOf<T>(call));
  };
  return DispatchDtype(FloatTypes(), call.x.element_type(),
                       {kForward, "operand x"}, run_as);
}

// --- Backward ----------------------------------------------------------------

struct BackwardCall {
  std::string_view operation;
  ffi::AnyBuffer x, ct;
  MaybeBuffer scale, weight, ct_sum;
  ffi::AnyBuffer dx;
  MaybeBuffer dweight;
  double eps = 0;
};

inline ffi::Error GetBackwardAttributes(const ffi::Dictionary& attributes,
                                        BackwardCall& call) {
  if (call.scale) {
    if (attributes.size() == 0) return {};
    return InvalidArgument({call.operation, "attributes"},
                           "none with an operand scale",
                           AttributeNames(attributes));
  }
  XLA_FFI_KIT_ASSIGN_OR_RETURN(
      call.eps,
      GetEps(call.operation, "{eps} without an operand scale", attributes));
  return {};
}

// All but the scale.
inline ffi::Error CheckBackward(const BackwardCall& call) {
  const std::string_view operation = call.operation;
  XLA_FFI_KIT_RETURN_IF_ERROR(CheckX(operation, call.x));
  XLA_FFI_KIT_RETURN_IF_ERROR(
      CheckLikeX({operation, "operand ct"}, call.ct, call.x));
  XLA_FFI_KIT_RETURN_IF_ERROR(CheckWeight(operation, call.weight, call.x));
  XLA_FFI_KIT_RETURN_IF_ERROR(
      CheckLikeX({operation, "operand ct_sum"}, call.ct_sum, call.x));
  XLA_FFI_KIT_RETURN_IF_ERROR(
      CheckLikeX({operation, "result dx"}, call.dx, call.x));
  if (!call.dweight) return {};
  return CheckLike({operation, "result dweight"}, *call.dweight, *call.weight,
                   "like operand weight");
}

template <typename T>
RmsNormBackwardArgs<T> ArgsOf(const BackwardCall& call) {
  const BatchShape shape = SplitLastAxis(call.x.dimensions());
  RmsNormBackwardArgs<T> args;
  args.x = Data<const T>(call.x);
  args.ct = Data<const T>(call.ct);
  args.scale = Data<const AccumulationType<T>>(call.scale);
  args.weight = Data<const T>(call.weight);
  args.ct_sum = Data<const T>(call.ct_sum);
  args.dx = Data<T>(call.dx);
  args.dweight = Data<T>(call.dweight);
  args.rows = shape.rows;
  args.n = shape.length;
  args.weights = CountWeights(call.weight);
  args.rows_per_weight = args.weights == 0 ? 0 : shape.rows / args.weights;
  args.eps = call.eps;
  return args;
}

// Returns run(RmsNormBackwardArgs<T>) of a call of `operation`, kBackward or
// kWeightBackward, or an error. With `has_workspace` there is one result more,
// which run() checks.
template <typename Run>
ffi::Error RunBackward(std::string_view operation, const Operands& operands,
                       const Results& results,
                       const ffi::Dictionary& attributes, const Run& run,
                       bool has_workspace = false) {
  const bool has_weight = operation == kWeightBackward;
  const size_t least = has_weight ? 4 : 2;
  XLA_FFI_KIT_RETURN_IF_ERROR(CheckCount(
      {operation, "operands"}, operands.size(), least, least + 1,
      has_weight ? "x, ct, scale, weight [, ct_sum]"
                 : "x, ct [, scale] (xla_ffi_kit.rms_norm_weight_bwd takes a "
                   "weight, too)"));
  const size_t count = 1 + (has_weight ? 1 : 0) + (has_workspace ? 1 : 0);
  XLA_FFI_KIT_RETURN_IF_ERROR(
      CheckCount({operation, "results"}, results.size(), count, count,
                 has_workspace ? "dx, dweight, workspace"
                               : (has_weight ? "dx, dweight" : "dx")));
  BackwardCall call = {operation,   *operands[0], *operands[1], operands[2],
                       operands[3], operands[4],  *results[0],  results[1]};
  XLA_FFI_KIT_RETURN_IF_ERROR(GetBackwardAttributes(attributes, call));
  XLA_FFI_KIT_RETURN_IF_ERROR(CheckBackward(call));
  return DispatchDtype(FloatTypes(), call.x.element_type(),
                       {operation, "operand x"}, [&](auto tag) -> ffi::Error {
                         using T = typename decltype(tag)::type;
                         XLA_FFI_KIT_RETURN_IF_ERROR(CheckScale<T>(
                             {operation, "operand scale"}, call.scale, call.x));
                         return run(ArgsOf<T>(call));
                       });
}

}  // namespace xla_ffi_kit::rms_norm_internal

#endif  // XLA_FFI_OPS_RMS_NORM_RMS_NORM_CALL_H_
