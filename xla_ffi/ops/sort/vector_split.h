// Which keys are below a bound, many at a time.

#ifndef XLA_FFI_OPS_SORT_VECTOR_SPLIT_H_
#define XLA_FFI_OPS_SORT_VECTOR_SPLIT_H_

#include <cstdint>

#include "xla_ffi/ops/sort/vector_sort.h"

namespace xla_ffi_kit {

// A vector of the narrowest keys: SplitKeys writes whole ones.
inline constexpr int64_t kSplitSlack = 16;

// How many of keys[0, n) are below `bound`.
int64_t CountBelow(const uint32_t* keys, int64_t n, uint32_t bound);
int64_t CountBelow(const uint64_t* keys, int64_t n, uint64_t bound);
int64_t CountBelow(const Pair64* keys, int64_t n, Pair64 bound);

// Writes the keys of keys[0, n) below `bound` to `low` and the others to
// `high`, in their order, and returns the number of the former. Both have room
// for n + kSplitSlack keys, and are written all over.
int64_t SplitKeys(const uint32_t* keys, int64_t n, uint32_t bound,
                  uint32_t* low, uint32_t* high);
int64_t SplitKeys(const uint64_t* keys, int64_t n, uint64_t bound,
                  uint64_t* low, uint64_t* high);
int64_t SplitKeys(const Pair64* keys, int64_t n, Pair64 bound, Pair64* low,
                  Pair64* high);

}  // namespace xla_ffi_kit

#endif  // XLA_FFI_OPS_SORT_VECTOR_SPLIT_H_
