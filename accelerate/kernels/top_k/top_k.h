// The k largest elements of each row, on the CPU.

#ifndef ACCELERATE_KERNELS_TOP_K_TOP_K_H_
#define ACCELERATE_KERNELS_TOP_K_TOP_K_H_

#include <cstdint>

#include "accelerate/core/ordered_key.h"
#include "xla_ffi/core/call.h"

namespace xla_ffi_accelerate::top_k {

using namespace xla_ffi_kit;  // its types and threads

// The k <= n largest elements of each row, largest first, and their indices; of
// equal ones that with the lower index comes first. As in XLA's TopK, floats
// are ordered by their bits, the sign first:
// -NaN < -inf < ... < -0.0 < 0.0 < ... < inf < NaN.
// RESOURCE_EXHAUSTED when memory is short.
inline constexpr auto x =
    Operand{"x", KeyTypes(), "(..., n)"}.Where("n", 0, int64_t{1} << 31);
inline constexpr Result values{"values", SameDtype(x), "(..., k)"};
inline constexpr Result indices{"indices", TypeList<int32_t>(),
                                SameShape(values)};
inline constexpr char kName[] = "xla_ffi_accelerate.top_k";
using TopKCall = Call<kName, x, values, indices>;

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

// O(n log k) on any input (O(n log n) where k is more than a 256th of n, or n
// at most 4096). The scratch of each thread is 16 to 32 bytes for each of 2 k
// elements (2 k + 256 for small k), or in the second case 8 to 12 bytes for
// each of n; without memory for it the outputs are undefined.
ScratchStatus TopK(const TopKProblem& problem, const Executor& executor);

}  // namespace xla_ffi_accelerate::top_k

XLA_FFI_DECLARE_HANDLER_SYMBOL(XlaFfiAccelerateTopKCpu);

#endif  // ACCELERATE_KERNELS_TOP_K_TOP_K_H_
