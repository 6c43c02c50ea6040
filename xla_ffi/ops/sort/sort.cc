#include "xla_ffi/ops/sort/sort.h"

#include <algorithm>
#include <cstdint>
#include <functional>

#include "xla_ffi/ops/sort/workers.h"

namespace xla_ffi_kit {
namespace sort_internal {

bool IsRowByRow(const SortProblem& problem, const Workers& workers) {
  // Rows that one thread each sorts need no distribution, and are better as
  // soon as there are enough for all to be busy. Of a shorter row half is
  // sorted before a second thread has come (50,000 floats took 0.13 ms by one
  // and 0.11 ms by two, 70,000 0.19 and 0.12 ms).
  constexpr int64_t kLongRow = 1 << 16;
  return problem.length >= kLongRow && problem.rows < 2 * workers.threads;
}

void ForRows(int64_t rows, int64_t length, const Workers& workers,
             const std::function<void(int64_t, int64_t)>& fn) {
  // Some 50 microseconds of work: then another thread is worth waking.
  constexpr int64_t kMinElements = 1 << 13;
  const int64_t min_rows =
      std::max<int64_t>(kMinElements / std::max<int64_t>(length, 1), 1);
  const int64_t tasks = std::min(rows / min_rows, 4 * workers.threads);
  if (tasks < 2 || workers.threads < 2) return fn(0, rows);
  workers.run(tasks, [&](int64_t task) {
    fn(task * rows / tasks, (task + 1) * rows / tasks);
  });
}

}  // namespace sort_internal

bool Sort(const SortProblem& problem, const Workers& workers) {
  if (problem.rows == 0 || problem.length == 0) return true;
  return problem.operands.size() == 1
             ? sort_internal::SortValues(problem, workers)
             : sort_internal::SortWithPayload(problem, workers);
}

}  // namespace xla_ffi_kit
