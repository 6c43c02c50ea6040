// Which elements are among others, on the CPU.

#ifndef ACCELERATE_KERNELS_ISIN_ISIN_H_
#define ACCELERATE_KERNELS_ISIN_ISIN_H_

#include <cstdint>

#include "accelerate/core/ordered_key.h"
#include "xla_ffi/core/call.h"

namespace xla_ffi_accelerate::isin {

using namespace xla_ffi_kit;  // its types and threads

// Whether each element equals one of its row's tests. -0.0 equals 0.0, NaN
// equals nothing. RESOURCE_EXHAUSTED when memory is short.
inline constexpr Operand element{"element", KeyTypes(), "(..., n)"};
inline constexpr Operand test{"test", SameDtype(element), "(..., m)"};
inline constexpr Result is_in{"is_in", TypeList<bool>(), SameShape(element)};
inline constexpr char kName[] = "xla_ffi_accelerate.isin";
using IsinCall = Call<kName, element, test, is_in>;

struct IsinProblem {
  int64_t rows = 0;
  int64_t elements = 0;           // a row
  int64_t tests = 0;              // a row
  KeyCode code;                   // of their type
  const void* element = nullptr;  // rows * elements
  const void* test = nullptr;     // rows * tests
  bool* is_in = nullptr;          // rows * elements
};

// The same: elements are equal that have the same code.
//
// A hash table of the tests, of 2 to 4 times their size, whose searches are
// bounded; tests that do not fit into one so are sorted instead and searched
// by bisection. Without memory for both the result is undefined.
ScratchStatus Isin(const IsinProblem& problem, const Executor& executor);

}  // namespace xla_ffi_accelerate::isin

XLA_FFI_DECLARE_HANDLER_SYMBOL(XlaFfiAccelerateIsinCpu);

#endif  // ACCELERATE_KERNELS_ISIN_ISIN_H_
