// The k largest elements of each row, on the CPU.

#ifndef ACCELERATE_KERNELS_TOP_K_TOP_K_H_
#define ACCELERATE_KERNELS_TOP_K_TOP_K_H_

#include <cstdint>

#include "accelerate/core/ordered_key.h"
#include "xla_ffi/core/executor.h"
#include "xla_ffi/core/host_scratch.h"

namespace xla_ffi_accelerate::top_k {

using namespace xla_ffi_kit;  // its types and threads

struct TopKProblem {
  int64_t rows = 0;
  int64_t length = 0;  // at most 2^31
  int64_t k = 0;       // at most `length`
  KeyCode code;        // of the elements' type
  bool is_bf16 = false;
  const void* in = nullptr;    // rows * length
  void* values = nullptr;      // rows * k
  int32_t* indices = nullptr;  // rows * k
};

// Writes the k largest elements of each row, largest first, and their indices;
// of equal ones that with the lower index comes first. As in XLA's TopK, floats
// are ordered by their bits, the sign first:
// -NaN < -inf < ... < -0.0 < 0.0 < ... < inf < NaN.
//
// O(n log k) on any input (O(n log n) where k is more than a 256th of n, or n
// at most 4096). The scratch of each thread is 16 to 32 bytes for each of 2 k
// elements (2 k + 256 for small k), or in the second case 8 to 12 bytes for
// each of n; without memory for it the outputs are undefined.
ScratchStatus TopK(const TopKProblem& problem, const Executor& executor);

}  // namespace xla_ffi_accelerate::top_k

#endif  // ACCELERATE_KERNELS_TOP_K_TOP_K_H_
