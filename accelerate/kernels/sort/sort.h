// Sorting of rows by one or several keys, with payload, on the CPU.

#ifndef ACCELERATE_KERNELS_SORT_SORT_H_
#define ACCELERATE_KERNELS_SORT_SORT_H_

#include <complex>
#include <cstdint>
#include <vector>

#include "accelerate/core/ordered_key.h"
#include "xla_ffi/core/call.h"
#include "xla_ffi/core/lines.h"

namespace xla_ffi_accelerate::sort {

using namespace xla_ffi_kit;  // its types and threads

using PayloadTypes =
    TypeList<bool, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t,
             uint32_t, uint64_t, Float16, BFloat16, float, double,
             std::complex<float>, std::complex<double>>;

// Sorts the rows of one or more operands together, as XLA's stable sort with
// JAX's comparator does: ascending by the first operand, equal ones by the
// second, up to `num_keys`, in XLA's order (ordered_key.h). Keys are not
// complex. What is moved is moved bit by bit, except NaNs of bf16
// (QuietBF16Nans). RESOURCE_EXHAUSTED when memory is short.
// (https://openxla.org/xla/operation_semantics#sort)
inline constexpr auto x = Operand{"x", PayloadTypes(), "(..., n)"}.Repeated();
inline constexpr auto num_keys = Attribute<int64_t>{"num_keys"}.AtLeast(1);
inline constexpr auto y = Result{"y", x}.Repeated();
inline constexpr char kName[] = "xla_ffi_accelerate.sort";
using SortCall = Call<kName, x, num_keys, y>;

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

// O(n log n) on any input. Without memory for the scratch the outputs are
// undefined; it is none for one operand of 32 or 64 bits, and else 8 bytes an
// element, 16 with a 64-bit key.
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

XLA_FFI_DECLARE_HANDLER_SYMBOL(XlaFfiAccelerateSortCpu);

#endif  // ACCELERATE_KERNELS_SORT_SORT_H_
