#include <string>
#include <type_traits>

#include "accelerate/core/ordered_key.h"
#include "accelerate/kernels/top_k/top_k.h"
#include "xla_ffi/core/handler.h"

// The handler has a file of its own: in one with the kernel, gcc inlines other
// functions of the kernel, and it takes up to a sixth longer.
namespace xla_ffi_accelerate::top_k {
namespace {

namespace ffi = ::xla::ffi;

ffi::Error Run(const TopKCall& call, const Executor& executor) {
  const Dimensions dims = call.get<x>().dims();
  TopKProblem problem;
  problem.rows = SplitLastAxis(dims).rows;
  problem.length = dims.back();
  problem.k = call.get<values>().dims().back();
  if (problem.k > problem.length) {
    return call.Invalid<x>(
        "a last axis of k = " + std::to_string(problem.k) + " or more elements",
        "shape " + ShapeText(dims));
  }
  problem.in = call.get<x>().data();
  problem.values = call.get<values>().data();
  problem.indices = call.get<indices>().as<int32_t>();
  return call.Dispatch<x>([&](auto tag) -> ffi::Error {
    using T = typename decltype(tag)::type;
    problem.code = OrderedKey<T>(/*subnormals_are_zero=*/false);
    problem.is_bf16 = std::is_same_v<T, BFloat16>;
    const ScratchStatus status = TopK(problem, executor);
    if (status) return {};
    return ScratchExhausted(
        call.operation(),
        "to select " + std::to_string(problem.k) + " elements", status,
        "select fewer at a time");
  });
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(XlaFfiAccelerateTopKCpu, Checked<Run>,
                              BindCall<Run>());
XLA_FFI_KIT_DEFINE_SIGNATURE(XlaFfiAccelerateTopKCpu, TopKCall);

}  // namespace xla_ffi_accelerate::top_k
