// Converts a call to the checked arguments of RMS normalization, in the same
// way on every platform. The contract is in rms_norm_handler.h.

#ifndef XLA_FFI_OPS_RMS_NORM_RMS_NORM_CALL_H_
#define XLA_FFI_OPS_RMS_NORM_RMS_NORM_CALL_H_

#include <cstddef>
#include <cstdint>

#include "xla_ffi/core/call.h"
#include "xla_ffi/core/handler.h"
#include "xla_ffi/ops/rms_norm/rms_norm.h"

namespace xla_ffi_kit::rms_norm_internal {

namespace ffi = ::xla::ffi;

// --- Signatures --------------------------------------------------------------

inline constexpr Argument kX =
    Operand("operand x").Of(FloatTypes()).RankAtLeast(1);
inline constexpr Argument kWeight = Operand("operand weight").DtypeOf(0);
constexpr Argument Scale(const Argument& scale) {
  return scale.Of(TypeList<float, double>())
      .ShapeWithoutLastOf(0, "like operand x without its last axis");
}
constexpr Attribute Eps() {
  return Scalar<double>("eps").Or<float>().AtLeast(0);
}

// Arguments of the forward by their numbers.
enum { kForwardWeight = 1, kForwardResidual = 2, kForwardScale = 5 };

inline constexpr Argument kForwardArguments[] = {
    kX,
    kWeight.Optional(),
    Operand("operand residual")
        .Like(0, "like operand x (the order is x, weight, residual)")
        .Optional(),
    Result("result y").Like(0),
    Result("result sum").Like(0).GivenWith(kForwardResidual),
    Scale(Result("result scale")).Optional(),
};
inline constexpr Attribute kForwardAttributes[] = {Eps()};
inline constexpr XlaFfiKit_Signature kForward = MakeSignature(
    "xla_ffi_kit.rms_norm", kForwardArguments, kForwardAttributes);

enum { kBackwardScale = 2, kBackwardWeight = 3, kBackwardWorkspace = 7 };

inline constexpr Argument kBackwardArguments[] = {
    kX,
    Operand("operand ct").Like(0),
    Scale(Operand("operand scale")).Optional(),
    Result("result dx").Like(0),
};
inline constexpr Attribute kBackwardAttributes[] = {
    Eps().UnlessGiven(kBackwardScale)};
inline constexpr XlaFfiKit_Signature kBackward = MakeSignature(
    "xla_ffi_kit.rms_norm_bwd", kBackwardArguments, kBackwardAttributes);

// On CUDA devices there is one result more.
inline constexpr Argument kWeightBackwardArguments[] = {
    kX,
    Operand("operand ct").Like(0),
    Scale(Operand("operand scale")),
    kWeight,
    Operand("operand ct_sum").Like(0).Optional(),
    Result("result dx").Like(0),
    Result("result dweight").Like(kBackwardWeight),
    Result("result workspace").Of<uint8_t>("on CUDA devices").Rank(1),
};
constexpr XlaFfiKit_Signature WeightBackwardSignature(size_t results) {
  XlaFfiKit_Signature signature = MakeSignature(
      "xla_ffi_kit.rms_norm_weight_bwd", kWeightBackwardArguments);
  signature.num_results = results;
  return signature;
}

// --- What the signatures do not say ------------------------------------------

// The number of a weight of an operation without one.
inline constexpr size_t kNoWeight = 0;

inline bool HasWeight(const Call& call, size_t weight) {
  return weight != kNoWeight && call.Has(weight);
}

// [P..., n], where [P...] begins x's batch axes.
inline ffi::Error CheckWeight(const Call& call, size_t weight) {
  if (!HasWeight(call, weight)) return {};
  const Dimensions got = call.argument(weight).dimensions(),
                   of_x = call.operand(0).dimensions();
  const bool fits = got.size() >= 1 && got.size() <= of_x.size() &&
                    got.back() == of_x.back() &&
                    BatchAxes(got) == of_x.first(got.size() - 1);
  if (fits) return {};
  return call.Invalid(
      weight,
      "the last axis, or the first axes and the last, of operand x, shape " +
          ShapeText(of_x),
      "shape " + ShapeText(got));
}

// The scale that the forward returns and the backward takes.
template <typename T>
ffi::Error CheckScale(const Call& call, size_t scale) {
  if (!call.Has(scale)) return {};
  constexpr ffi::DataType kDtype = kDtypeOf<AccumulationType<T>>;
  const ffi::DataType got = call.argument(scale).element_type();
  if (got == kDtype) return {};
  return call.Invalid(scale,
                      "dtype " + DtypeName(kDtype) + " to accumulate x's " +
                          DtypeName(kDtypeOf<T>),
                      "dtype " + DtypeName(got));
}

// How many weights there are: none of x's rows, or all, may share one.
inline int64_t CountWeights(const Call& call, size_t weight) {
  if (!HasWeight(call, weight)) return 1;
  return SplitLastAxis(call.argument(weight).dimensions()).rows;
}

// Returns run(tag of x's type) of a call whose weight and scale, by their
// numbers, fit x.
template <typename Run>
ffi::Error RunChecked(const Call& call, size_t weight, size_t scale,
                      const Run& run) {
  XLA_FFI_KIT_RETURN_IF_ERROR(
      CheckLastAxisNotEmpty({call.operation(), "operand x"}, call.operand(0)));
  XLA_FFI_KIT_RETURN_IF_ERROR(CheckWeight(call, weight));
  return call.Dispatch(FloatTypes(), 0, [&](auto tag) -> ffi::Error {
    using T = typename decltype(tag)::type;
    XLA_FFI_KIT_RETURN_IF_ERROR(CheckScale<T>(call, scale));
    return run(tag);
  });
}

// --- Arguments of the kernels ------------------------------------------------

template <typename T>
RmsNormForwardArgs<T> ForwardArgsOf(const Call& call) {
  const BatchShape shape = SplitLastAxis(call.operand(0).dimensions());
  const int64_t weights = CountWeights(call, kForwardWeight);
  RmsNormForwardArgs<T> args;
  args.x = call.In<T>(0);
  args.weight = call.In<T>(kForwardWeight);
  args.residual = call.In<T>(kForwardResidual);
  args.y = call.Out<T>(0);
  args.sum = call.Out<T>(1);
  args.scale = call.Out<AccumulationType<T>>(2);
  args.rows = shape.rows;
  args.n = shape.length;
  args.rows_per_weight = weights == 0 ? 0 : shape.rows / weights;
  args.eps = call.Get<double>("eps");
  return args;
}

// Returns run(RmsNormForwardArgs<T>), or an error.
template <typename Run>
ffi::Error RunForward(const Call& call, const Run& run) {
  return RunChecked(call, kForwardWeight, kForwardScale, [&](auto tag) {
    return run(ForwardArgsOf<typename decltype(tag)::type>(call));
  });
}

template <typename T>
RmsNormBackwardArgs<T> BackwardArgsOf(const Call& call, size_t weight) {
  const BatchShape shape = SplitLastAxis(call.operand(0).dimensions());
  RmsNormBackwardArgs<T> args;
  args.x = call.In<T>(0);
  args.ct = call.In<T>(1);
  args.scale = call.In<AccumulationType<T>>(kBackwardScale);
  args.dx = call.Out<T>(0);
  args.rows = shape.rows;
  args.n = shape.length;
  args.weights = CountWeights(call, weight);
  args.rows_per_weight = args.weights == 0 ? 0 : shape.rows / args.weights;
  if (weight != kNoWeight) {
    args.weight = call.In<T>(weight);
    args.ct_sum = call.In<T>(4);
    args.dweight = call.Out<T>(1);
  } else if (!call.Has(kBackwardScale)) {
    args.eps = call.Get<double>("eps");
  }
  return args;
}

// Returns run(RmsNormBackwardArgs<T>) of a call of one of the backwards, with
// kBackwardWeight or kNoWeight, or an error.
template <typename Run>
ffi::Error RunBackward(const Call& call, size_t weight, const Run& run) {
  return RunChecked(call, weight, kBackwardScale, [&](auto tag) {
    using T = typename decltype(tag)::type;
    return run(BackwardArgsOf<T>(call, weight));
  });
}

}  // namespace xla_ffi_kit::rms_norm_internal

#endif  // XLA_FFI_OPS_RMS_NORM_RMS_NORM_CALL_H_
