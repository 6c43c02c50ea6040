// Sorting of rows by one or several keys, with payload, on the CPU.

#ifndef XLA_FFI_OPS_SORT_SORT_H_
#define XLA_FFI_OPS_SORT_SORT_H_

#include <cstdint>
#include <vector>

#include "xla_ffi/ops/sort/pack.h"
#include "xla_ffi/ops/sort/workers.h"

namespace xla_ffi_kit {

// One array of rows * length elements, row by row.
struct SortOperand {
  int64_t width;  // bytes an element: 1, 2, 4, 8 or 16
  const void* in;
  void* out;     // as large as `in`, and apart from every input
  KeyKind kind;  // a key's width is at most 8; of payload only bf16 matters
};

struct SortProblem {
  int64_t rows;
  int64_t length;
  int64_t num_keys;  // the first operands are the keys, 1 or more
  std::vector<SortOperand> operands;
  // Subnormal bf16, f32 and f64 keys equal 0.0, as they do to XLA's comparator
  // on threads that flush them.
  bool subnormals_are_zero = false;
};

// Sorts each row of all operands together: stable, ascending, by the first
// key, equal ones by the second, and so on, in XLA's order (key_code.h). What
// is moved is moved bit by bit, but for the NaNs of bf16 (QuietBF16Nans).
//
// O(n log n) on any input. False if there is no memory for the scratch, then
// the outputs are undefined; it is none for one operand of 32 or 64 bits, and
// else 8 bytes an element, 16 with a 64-bit key.
[[nodiscard]] bool Sort(const SortProblem& problem, const Workers& workers);

namespace sort_internal {

// Of one operand, which needs no index to be stable.
bool SortValues(const SortProblem& problem, const Workers& workers);

// Of any number of operands.
bool SortWithPayload(const SortProblem& problem, const Workers& workers);

// The rows are worked on one after the other, each by all workers.
bool IsRowByRow(const SortProblem& problem, const Workers& workers);

// Calls fn(begin, end) for parts of [0, rows) that pay a thread each.
void ForRows(int64_t rows, int64_t length, const Workers& workers,
             const std::function<void(int64_t, int64_t)>& fn);

}  // namespace sort_internal
}  // namespace xla_ffi_kit

#endif  // XLA_FFI_OPS_SORT_SORT_H_
