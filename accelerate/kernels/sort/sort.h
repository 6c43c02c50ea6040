// Sorting of rows by one or several keys, with payload, on the CPU.

#ifndef ACCELERATE_KERNELS_SORT_SORT_H_
#define ACCELERATE_KERNELS_SORT_SORT_H_

#include <cstdint>
#include <vector>

#include "accelerate/core/ordered_key.h"
#include "xla_ffi/core/executor.h"
#include "xla_ffi/core/host_scratch.h"
#include "xla_ffi/core/lines.h"

namespace xla_ffi_accelerate::sort {

using namespace xla_ffi_kit;  // its types and threads

// One array of rows * length elements, row by row.
struct SortOperand {
  const void* in = nullptr;
  void* out = nullptr;  // as large as `in`, and apart from every input
  int64_t width = 0;    // bytes an element: 1, 2, 4, 8, or 16 for payload
  KeyCode code;         // of a key's type
  bool is_bf16 = false;
};

struct SortProblem {
  int64_t rows = 0;
  int64_t length = 0;
  int64_t num_keys = 1;  // the first operands are the keys
  std::vector<SortOperand> operands;
};

// Sorts each row of all operands together: stable, ascending, by the first
// key, equal ones by the second, and so on, in XLA's order (ordered_key.h).
// What is moved is moved bit by bit, except NaNs of bf16 (QuietBF16Nans).
//
// O(n log n) on any input. Without memory for the scratch the outputs are
// undefined; it is none for one operand of 32 or 64 bits, and
// else 8 bytes an element, 16 with a 64-bit key.
ScratchStatus Sort(const SortProblem& problem, const Executor& executor);

namespace sort_internal {

// Sorts one operand, which needs no index to be stable.
ScratchStatus SortValues(const SortProblem& problem, const Executor& executor);

// Sorts any number of operands.
ScratchStatus SortWithPayload(const SortProblem& problem,
                              const Executor& executor);

// Whether each thread sorts whole rows, or all of them one row after the other.
LinePlan PlanRows(const SortProblem& problem, const Executor& executor);

}  // namespace sort_internal
}  // namespace xla_ffi_accelerate::sort

#endif  // ACCELERATE_KERNELS_SORT_SORT_H_
