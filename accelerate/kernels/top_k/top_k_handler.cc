#include "accelerate/kernels/top_k/top_k_handler.h"

#include <cstdint>
#include <string>
#include <type_traits>

#include "accelerate/core/ordered_key.h"
#include "accelerate/kernels/top_k/top_k.h"
#include "xla_ffi/core/call.h"
#include "xla_ffi/core/handler.h"

namespace xla_ffi_accelerate::top_k {
namespace {

namespace ffi = ::xla::ffi;

constexpr int64_t kMaxLength = int64_t{1} << 31;  // indices are s32

constexpr Argument kArguments[] = {
    Operand("operand x").Of(KeyTypes()).RankAtLeast(1),
    Result("result values")
        .DtypeOf(0)
        .RankAtLeast(1)
        .ShapeButLastOf(0, "from operand x"),
    Result("result indices").Of<int32_t>("for indices").ShapeOf(1),
};
constexpr XlaFfiKit_Signature kTopK =
    MakeSignature("xla_ffi_accelerate.top_k", kArguments);

ffi::Error RunTopK(const Call& call, const Executor& executor) {
  const Dimensions dims = call.operand(0).dimensions();
  const BatchShape shape = SplitLastAxis(dims);
  TopKProblem problem;
  problem.rows = shape.rows;
  problem.length = shape.length;
  problem.k = call.result(0).dimensions().back();
  if (problem.length > kMaxLength || problem.k > problem.length) {
    return call.Invalid(
        0,
        "a last axis of k = " + std::to_string(problem.k) + " to 2^31 elements",
        "shape " + ShapeText(dims));
  }
  if (ElementCount(call.result(0)) == 0) return {};
  problem.in = call.In<void>(0);
  problem.values = call.Out<void>(0);
  problem.indices = call.Out<int32_t>(1);
  return call.Dispatch(KeyTypes(), 0, [&](auto tag) -> ffi::Error {
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

XLA_FFI_DEFINE_HANDLER_SYMBOL(XlaFfiAccelerateTopKCpu,
                              (Checked<kTopK, RunTopK>), BindCall());
XLA_FFI_KIT_DEFINE_SIGNATURE(XlaFfiAccelerateTopKCpu, kTopK);

}  // namespace xla_ffi_accelerate::top_k
