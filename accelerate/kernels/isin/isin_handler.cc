#include "accelerate/kernels/isin/isin_handler.h"

#include <string>

#include "accelerate/core/ordered_key.h"
#include "accelerate/kernels/isin/isin.h"
#include "xla_ffi/core/call.h"
#include "xla_ffi/core/handler.h"

namespace xla_ffi_accelerate::isin {
namespace {

namespace ffi = ::xla::ffi;

constexpr Argument kArguments[] = {
    Operand("operand element").Of(KeyTypes()).RankAtLeast(1),
    Operand("operand test")
        .RankAtLeast(1)
        .DtypeOf(0)
        .ShapeButLastOf(
            0, "matching operand element except in the last dimension"),
    Result("result is_in").Of<bool>("for truth values").ShapeOf(0),
};
constexpr XlaFfiKit_Signature kIsin =
    MakeSignature("xla_ffi_accelerate.isin", kArguments);

ffi::Error RunIsin(const Call& call, const Executor& executor) {
  const ffi::AnyBuffer element = call.operand(0), test = call.operand(1);
  if (ElementCount(element) == 0) return {};
  const BatchShape shape = SplitLastAxis(element.dimensions());
  IsinProblem problem;
  problem.rows = shape.rows;
  problem.elements = shape.length;
  problem.tests = test.dimensions().back();
  problem.element = element.untyped_data();
  problem.test = test.untyped_data();
  problem.is_in = static_cast<bool*>(call.result(0).untyped_data());
  return call.Dispatch(KeyTypes(), 0, [&](auto tag) -> ffi::Error {
    using T = typename decltype(tag)::type;
    problem.code = OrderedKey<T>(SubnormalsAreZero());
    const ScratchStatus status = Isin(problem, executor);
    if (status) return {};
    return ScratchExhausted(
        call.operation(),
        "for a table of " + std::to_string(problem.tests) + " tests", status);
  });
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(XlaFfiAccelerateIsinCpu,
                              (Checked<kIsin, RunIsin>), BindCall());
XLA_FFI_KIT_DEFINE_SIGNATURE(XlaFfiAccelerateIsinCpu, kIsin);

}  // namespace xla_ffi_accelerate::isin
