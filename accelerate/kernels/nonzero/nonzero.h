// The indices of the true elements of each row, on the CPU.

#ifndef ACCELERATE_KERNELS_NONZERO_NONZERO_H_
#define ACCELERATE_KERNELS_NONZERO_NONZERO_H_

#include <cstdint>

#include "xla_ffi/core/call.h"

namespace xla_ffi_accelerate::nonzero {

using namespace xla_ffi_kit;  // its types and threads

// For each row of the mask the indices of its first `size` true elements, in
// order, and `fill` where there are fewer. The dtype of indices holds n and
// `fill`.
inline constexpr Operand mask{"mask", TypeList<bool>(), "(..., n)"};
inline constexpr Attribute<int64_t> fill{"fill"};
inline constexpr auto size = Attribute<int64_t>{"size"}.AtLeast(0);
inline constexpr Result indices{"indices", TypeList<int32_t, int64_t>(),
                                "(..., size)"};
inline constexpr char kName[] = "xla_ffi_accelerate.nonzero";
using NonzeroCall = Call<kName, mask, fill, size, indices>;

template <typename Index>
struct NonzeroProblem {
  int64_t rows = 0;
  int64_t length = 0;  // of a row of the mask
  int64_t size = 0;    // of a row of indices
  Index fill = 0;
  const uint8_t* mask = nullptr;  // rows * length
  Index* indices = nullptr;       // rows * size
};

// Index: int32_t or int64_t.
template <typename Index>
void Nonzero(const NonzeroProblem<Index>& problem, const Executor& executor);

}  // namespace xla_ffi_accelerate::nonzero

XLA_FFI_DECLARE_HANDLER_SYMBOL(XlaFfiAccelerateNonzeroCpu);

#endif  // ACCELERATE_KERNELS_NONZERO_NONZERO_H_
