#include "accelerate/kernels/sort/sort.h"

#include <cstdint>

#include "xla_ffi/core/parallel_for.h"

namespace xla_ffi_kit {
namespace sort_internal {

bool IsRowByRow(const SortProblem& problem, const Executor& executor) {
  // Rows that one thread each sorts need no distribution, and are better as
  // soon as there are enough for all to be busy. Of a shorter row half is
  // sorted before a second thread has come (50,000 floats took 0.13 ms by one
  // and 0.11 ms by two, 70,000 0.19 and 0.12 ms).
  constexpr int64_t kLongRow = 1 << 16;
  return problem.length >= kLongRow &&
         problem.rows < 2 * executor.num_threads();
}

int64_t NumRowParts(const SortProblem& problem, const Executor& executor) {
  // Some 50 microseconds of work, for which another thread is worth waking.
  constexpr int64_t kMinElements = 1 << 13;
  return NumParts(executor, problem.rows,
                  MinItems(kMinElements, problem.length));
}

}  // namespace sort_internal

ScratchStatus Sort(const SortProblem& problem, const Executor& executor) {
  if (problem.rows == 0 || problem.length == 0) return {};
  return problem.operands.size() == 1
             ? sort_internal::SortValues(problem, executor)
             : sort_internal::SortWithPayload(problem, executor);
}

}  // namespace xla_ffi_kit
