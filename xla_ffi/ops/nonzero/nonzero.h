// The indices of the true elements of each row, on the CPU.

#ifndef XLA_FFI_OPS_NONZERO_NONZERO_H_
#define XLA_FFI_OPS_NONZERO_NONZERO_H_

#include <cstdint>

#include "xla_ffi/ops/sort/workers.h"

namespace xla_ffi_kit {

// Writes for each row of mask[rows, length] the indices of its first `size`
// true elements, in order, and `fill` where there are fewer. Index: int32_t or
// int64_t.
template <typename Index>
void Nonzero(const uint8_t* mask, int64_t rows, int64_t length, int64_t size,
             Index fill, Index* indices, const Workers& workers);

}  // namespace xla_ffi_kit

#endif  // XLA_FFI_OPS_NONZERO_NONZERO_H_
