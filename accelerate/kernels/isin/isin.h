// Which elements are among others, on the CPU.

#ifndef ACCELERATE_KERNELS_ISIN_ISIN_H_
#define ACCELERATE_KERNELS_ISIN_ISIN_H_

#include <cstdint>

#include "accelerate/core/ordered_key.h"
#include "xla_ffi/core/executor.h"
#include "xla_ffi/core/host_scratch.h"

namespace xla_ffi_accelerate::isin {

using namespace xla_ffi_kit;  // its types and threads

struct IsinProblem {
  int64_t rows = 0;
  int64_t elements = 0;           // a row
  int64_t tests = 0;              // a row
  KeyCode code;                   // of their type
  const void* element = nullptr;  // rows * elements
  const void* test = nullptr;     // rows * tests
  bool* is_in = nullptr;          // rows * elements
};

// Whether each element equals one of its row's tests: has its code. NaN equals
// nothing.
//
// A hash table of the tests, of 2 to 4 times their size, whose searches are
// bounded; tests that do not fit into one so are sorted instead and searched
// by bisection. Without memory for both the result is undefined.
ScratchStatus Isin(const IsinProblem& problem, const Executor& executor);

}  // namespace xla_ffi_accelerate::isin

#endif  // ACCELERATE_KERNELS_ISIN_ISIN_H_
