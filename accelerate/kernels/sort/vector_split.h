// Keys counted and split by a bound, with the widest vectors of this CPU.

#ifndef ACCELERATE_KERNELS_SORT_VECTOR_SPLIT_H_
#define ACCELERATE_KERNELS_SORT_VECTOR_SPLIT_H_

#include <cstdint>

#include "accelerate/core/vector_sort.h"

namespace xla_ffi_accelerate::sort {

// A vector of the narrowest keys: SplitKeys writes whole ones.
inline constexpr int64_t kSplitSlack = 16;

// Packed is uint32_t, uint64_t or Pair64.

// How many of keys[0, n) are below `bound`.
template <typename Packed>
int64_t CountBelow(const Packed* keys, int64_t n, Packed bound);

// Writes the keys of keys[0, n) below `bound` to `low` and the others to
// `high`, in their order, and returns the number of the former. Both have room
// for n + kSplitSlack keys, and are written all over.
template <typename Packed>
int64_t SplitKeys(const Packed* keys, int64_t n, Packed bound, Packed* low,
                  Packed* high);

}  // namespace xla_ffi_accelerate::sort

#endif  // ACCELERATE_KERNELS_SORT_VECTOR_SPLIT_H_
