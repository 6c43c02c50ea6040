#include "accelerate/kernels/cumulative/cumulative_handler.h"

#include "accelerate/core/ordered_key.h"
#include "accelerate/kernels/cumulative/cumulative.h"
#include "xla_ffi/core/call.h"
#include "xla_ffi/core/handler.h"

namespace xla_ffi_accelerate::cumulative {
namespace {

namespace ffi = ::xla::ffi;

constexpr Argument kArguments[] = {
    Operand("operand x").Of(RealTypes()),
    Result("result y").Like(0),
};
constexpr const char* kOps[] = {"sum", "product", "max", "min"};
constexpr Attribute kAttributes[] = {
    Integer("axis").AxisOf(0),
    Word("op", kOps),    // in the order of CumulativeOp
    Integer("reverse"),  // 1: from the end
};
constexpr XlaFfiKit_Signature kCumulative =
    MakeSignature("xla_ffi_accelerate.cumulative", kArguments, kAttributes);

ffi::Error RunCumulative(const Call& call, const Executor& executor) {
  const ffi::AnyBuffer x = call.operand(0), y = call.result(0);
  const AxisShape shape = SplitAxis(x.dimensions(), call.Get<int64_t>("axis"));
  CumulativeProblem problem;
  problem.outer = shape.outer;
  problem.length = shape.length;
  problem.inner = shape.inner;
  problem.op = static_cast<CumulativeOp>(call.WordOf("op"));
  problem.reverse = call.Get<int64_t>("reverse") != 0;
  problem.subnormals_are_zero = SubnormalsAreZero();
  problem.in = x.untyped_data();
  problem.out = y.untyped_data();
  const auto run = [&](auto tag) {
    if (ElementCount(x) == 0) return ffi::Error();
    AdviseHugePages(y.untyped_data(), SizeBytes(y));
    Cumulative<typename decltype(tag)::type>(problem, executor);
    return ffi::Error();
  };
  if (!problem.reverse || problem.op > CumulativeOp::kProduct) {
    return call.Dispatch(RealTypes(), 0, run);
  }
  return DispatchDtype(
      IntegerTypes(), x.element_type(),
      {call.operation(),
       "operand x (no float for a sum or a product from the end)"},
      run);
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(XlaFfiAccelerateCumulativeCpu,
                              (Checked<kCumulative, RunCumulative>),
                              BindCall());
XLA_FFI_KIT_DEFINE_SIGNATURE(XlaFfiAccelerateCumulativeCpu, kCumulative);

}  // namespace xla_ffi_accelerate::cumulative
