#include <string>

#include "accelerate/core/ordered_key.h"
#include "accelerate/kernels/isin/isin.h"
#include "xla_ffi/core/handler.h"

// The handler has a file of its own: in one with the kernel, gcc inlines other
// functions of the kernel, and it takes up to a third longer.
namespace xla_ffi_accelerate::isin {
namespace {

namespace ffi = ::xla::ffi;

ffi::Error Run(const IsinCall& call, const Executor& executor) {
  const BatchShape shape = SplitLastAxis(call.get<element>().dims());
  IsinProblem problem;
  problem.rows = shape.rows;
  problem.elements = shape.length;
  problem.tests = call.get<test>().dims().back();
  problem.element = call.get<element>().data();
  problem.test = call.get<test>().data();
  problem.is_in = call.get<is_in>().as<bool>();
  return call.Dispatch<element>([&](auto tag) -> ffi::Error {
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

XLA_FFI_DEFINE_HANDLER_SYMBOL(XlaFfiAccelerateIsinCpu, Checked<Run>,
                              BindCall<Run>());
XLA_FFI_KIT_DEFINE_SIGNATURE(XlaFfiAccelerateIsinCpu, IsinCall);

}  // namespace xla_ffi_accelerate::isin
