#include "accelerate/kernels/sort/sort.h"

#include <cstdint>

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

}  // namespace xla_ffi_accelerate::sort
