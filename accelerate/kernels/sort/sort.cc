#include "accelerate/kernels/sort/sort.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

#include "accelerate/core/ordered_key.h"
#include "xla_ffi/core/handler.h"
#include "xla_ffi/core/lines.h"

namespace xla_ffi_accelerate::sort {
namespace sort_internal {

LinePlan PlanRows(const SortProblem& problem, const Executor& executor) {
  const int64_t n = problem.length;
  // Half of a shorter row would be sorted before a second thread starts.
  constexpr int64_t kLongRow = 1 << 16;
  const int64_t width = problem.operands[0].width;
  const bool is_counted =
      problem.operands.size() == 1 && width < 4 && n >= kLongRow;
  LineWork work = {problem.rows, n, is_counted ? 0.45 * width : 6.0};
  if (n >= kLongRow) work.shared_ns = work.element_ns;
  return PlanLines(executor, work);
}

}  // namespace sort_internal

ScratchStatus Sort(const SortProblem& problem, const Executor& executor) {
  if (problem.rows == 0 || problem.length == 0) return {};
  return problem.operands.size() == 1
             ? sort_internal::SortValues(problem, executor)
             : sort_internal::SortWithPayload(problem, executor);
}

namespace {

namespace ffi = ::xla::ffi;

// Sets how keys of that dtype are ordered; of payload only bf16 matters.
ffi::Error SetCode(const SortCall& call, size_t i, bool subnormals_are_zero,
                   SortOperand* operand) {
  const ffi::DataType dtype = call.get<x>()[i].dtype();
  return DispatchDtype(PayloadTypes(), dtype, {}, [&](auto tag) {
    using T = typename decltype(tag)::type;
    operand->is_bf16 = std::is_same_v<T, BFloat16>;
    if constexpr (std::is_arithmetic_v<T> || sizeof(T) == 2) {
      operand->code = OrderedKey<T>(subnormals_are_zero);
    } else if (static_cast<int64_t>(i) < call.get<num_keys>()) {
      return call.Invalid<x>(i, "a dtype with an order for a key",
                             "dtype " + DtypeName(dtype));
    }
    return ffi::Error();
  });
}

ffi::Error Run(const SortCall& call, const Executor& executor) {
  const auto in = call.get<x>();
  const auto out = call.get<y>();
  const size_t operands = in.size();
  SortProblem problem;
  problem.num_keys = call.get<num_keys>();
  if (problem.num_keys > static_cast<int64_t>(operands)) {
    return call.Invalid<num_keys>("1 to " + std::to_string(operands),
                                  std::to_string(problem.num_keys));
  }
  problem.operands.resize(operands);
  const bool subnormals_are_zero = SubnormalsAreZero();
  for (size_t i = 0; i < operands; ++i) {
    SortOperand* const to = &problem.operands[i];
    XLA_FFI_KIT_RETURN_IF_ERROR(SetCode(call, i, subnormals_are_zero, to));
    to->in = in[i].data();
    to->out = out[i].data();
    to->width = static_cast<int64_t>(ffi::ByteWidth(in[i].dtype()));
  }
  const BatchShape shape = SplitLastAxis(in[0].dims());
  problem.rows = shape.rows;
  problem.length = shape.length;
  const ScratchStatus status = Sort(problem, executor);
  if (status) return {};
  return ScratchExhausted(
      call.operation(),
      "to sort rows of " + std::to_string(shape.length) + " elements", status,
      "sort fewer at a time");
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(XlaFfiAccelerateSortCpu, Checked<Run>,
                              BindCall<Run>());
XLA_FFI_KIT_DEFINE_SIGNATURE(XlaFfiAccelerateSortCpu, SortCall);

}  // namespace xla_ffi_accelerate::sort
