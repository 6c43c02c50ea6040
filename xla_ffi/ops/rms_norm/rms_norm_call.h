// What the handlers of RMS normalization take, on the CPU and on CUDA devices,
// and the arguments of the kernels (rms_norm.h, which has the formulas) out of
// a call.
//
// The number of operands and results says which they are: `sum` is a result
// exactly if `residual` is an operand, and any further result is `scale`. Rows
// that differ in the axes that a weight lacks share it. Where the backward has
// no scale it computes that again from x and eps. With a residual its x is the
// forward's sum, ct_sum the cotangent of that, and dx the cotangent of the
// residual too. y, sum and dx may share a buffer with any operand like x.
//
// On CUDA devices the handlers return the error of the launch too, and may be
// captured in a command buffer.

#ifndef XLA_FFI_OPS_RMS_NORM_RMS_NORM_CALL_H_
#define XLA_FFI_OPS_RMS_NORM_RMS_NORM_CALL_H_

#include <cstdint>

#include "xla_ffi/core/call.h"
#include "xla_ffi/core/handler.h"
#include "xla_ffi/ops/rms_norm/rms_norm.h"

namespace xla_ffi_kit::rms_norm_internal {

namespace ffi = ::xla::ffi;

inline constexpr Operand x =
    Operand{"x", RealFloatTypes(), "(..., n)"}.Where("n", 1);
inline constexpr Operand weight =
    Operand{"weight", SameDtype(x), "(n)"}.Shared();
inline constexpr Operand optional_weight = weight.Optional();
inline constexpr Operand residual = Operand{"residual", x}.Optional();
inline constexpr Attribute<double> eps =
    Attribute<double>{"eps"}.OrF32().AtLeast(0);
inline constexpr Result y{"y", x};
inline constexpr Result sum = Result{"sum", x}.GivenWith(residual);
inline constexpr Result scale_result =
    Result{"scale", AccumulationDtype(x), "(...)"}.Optional();

inline constexpr char kForward[] = "xla_ffi_kit.rms_norm";
using ForwardCall =
    Call<kForward, x, optional_weight, residual, eps, y, sum, scale_result>;

inline constexpr Operand ct{"ct", x};
inline constexpr Operand scale{"scale", AccumulationDtype(x), "(...)"};
inline constexpr Operand optional_scale = scale.Optional();
inline constexpr Attribute<double> optional_eps =
    eps.UnlessGiven(optional_scale);
inline constexpr Result dx{"dx", x};

inline constexpr char kBackward[] = "xla_ffi_kit.rms_norm_bwd";
using BackwardCall = Call<kBackward, x, ct, optional_scale, optional_eps, dx>;

inline constexpr Operand ct_sum = Operand{"ct_sum", x}.Optional();
inline constexpr Result dweight{"dweight", weight};
// Memory for the sums of dweight, which nobody reads: at least as much as
// dweight takes in the type of `scale`. With more, more blocks work on them:
// with 1024 times that, as many as a large GPU runs.
inline constexpr Result workspace{"workspace", TypeList<uint8_t>(), "(bytes)"};

inline constexpr char kWeightBackward[] = "xla_ffi_kit.rms_norm_weight_bwd";
using WeightBackwardCall =
    Call<kWeightBackward, x, ct, scale, weight, ct_sum, dx, dweight>;
using WeightBackwardCudaCall =
    Call<kWeightBackward, x, ct, scale, weight, ct_sum, dx, dweight, workspace>;

// --- Arguments of the kernels ------------------------------------------------

// How many weights there are: none of x's rows, or all, may share one.
template <typename Weight>
int64_t CountWeights(const Weight& weight) {
  return weight ? SplitLastAxis(weight.dims()).rows : 1;
}

template <typename T>
RmsNormForwardArgs<T> ArgsOf(const ForwardCall& call, TypeTag<T> tag) {
  const BatchShape shape = SplitLastAxis(call.get<x>().dims());
  const int64_t weights = CountWeights(call.get<optional_weight>());
  RmsNormForwardArgs<T> args;
  args.x = call.get<x>().as(tag);
  args.weight = call.get<optional_weight>().as(tag);
  args.residual = call.get<residual>().as(tag);
  args.y = call.get<y>().as(tag);
  args.sum = call.get<sum>().as(tag);
  args.scale = call.get<scale_result>().as<AccumulationType<T>>();
  args.rows = shape.rows;
  args.n = shape.length;
  args.rows_per_weight = weights == 0 ? 0 : shape.rows / weights;
  args.eps = call.get<eps>();
  return args;
}

// The arguments that both backwards have; kScale is the key of the scale.
template <const auto& kScale, typename AnyBackwardCall, typename T>
RmsNormBackwardArgs<T> CommonArgsOf(const AnyBackwardCall& call,
                                    TypeTag<T> tag) {
  const BatchShape shape = SplitLastAxis(call.template get<x>().dims());
  RmsNormBackwardArgs<T> args;
  args.x = call.template get<x>().as(tag);
  args.ct = call.template get<ct>().as(tag);
  args.scale = call.template get<kScale>().template as<AccumulationType<T>>();
  args.dx = call.template get<dx>().as(tag);
  args.rows = args.rows_per_weight = shape.rows;
  args.n = shape.length;
  return args;
}

template <typename T>
RmsNormBackwardArgs<T> ArgsOf(const BackwardCall& call, TypeTag<T> tag) {
  RmsNormBackwardArgs<T> args = CommonArgsOf<optional_scale>(call, tag);
  if (!call.get<optional_scale>()) args.eps = call.get<optional_eps>();
  return args;
}

// With a weight, on the CPU and on CUDA devices.
template <typename AnyWeightCall, typename T>
RmsNormBackwardArgs<T> ArgsOf(const AnyWeightCall& call, TypeTag<T> tag) {
  RmsNormBackwardArgs<T> args = CommonArgsOf<scale>(call, tag);
  args.weight = call.template get<weight>().as(tag);
  args.ct_sum = call.template get<ct_sum>().as(tag);
  args.dweight = call.template get<dweight>().as(tag);
  args.weights = CountWeights(call.template get<weight>());
  args.rows_per_weight = args.weights == 0 ? 0 : args.rows / args.weights;
  return args;
}

// Returns run(args).
template <typename SomeCall, typename Run>
ffi::Error RunWithArgs(const SomeCall& call, const Run& run) {
  return call.template Dispatch<x>(
      [&](auto tag) { return run(ArgsOf(call, tag)); });
}

}  // namespace xla_ffi_kit::rms_norm_internal

XLA_FFI_DECLARE_HANDLER_SYMBOL(XlaFfiKitRmsNormCpu);
XLA_FFI_DECLARE_HANDLER_SYMBOL(XlaFfiKitRmsNormBwdCpu);
XLA_FFI_DECLARE_HANDLER_SYMBOL(XlaFfiKitRmsNormWeightBwdCpu);

XLA_FFI_DECLARE_HANDLER_SYMBOL(XlaFfiKitRmsNormCuda);
XLA_FFI_DECLARE_HANDLER_SYMBOL(XlaFfiKitRmsNormBwdCuda);
XLA_FFI_DECLARE_HANDLER_SYMBOL(XlaFfiKitRmsNormWeightBwdCuda);

#endif  // XLA_FFI_OPS_RMS_NORM_RMS_NORM_CALL_H_
