// Highway's vectorized quicksort and selection, for the three key types that
// sorts pack their operands into.

#ifndef ACCELERATE_CORE_VECTOR_SORT_H_
#define ACCELERATE_CORE_VECTOR_SORT_H_

#include <cstdint>

#include "accelerate/core/packed_key.h"

namespace xla_ffi_accelerate {

// Sorts keys[0, n) ascending, in place, with the widest vectors of this CPU.
// Not stable. O(n log n) comparisons on any input, no allocation.
//
// Visible although their file is compiled with hidden symbols: where Bazel
// makes a shared library of every target, other kernels link to them.
#pragma GCC visibility push(default)
void VectorSort(uint32_t* keys, int64_t n);
void VectorSort(uint64_t* keys, int64_t n);
void VectorSort(Pair64* keys, int64_t n);

// Moves the key that would be at `k` in sorted order there, 0 <= k < n, no
// greater keys before it and no lesser ones after it.
void VectorSelect(uint32_t* keys, int64_t n, int64_t k);
void VectorSelect(uint64_t* keys, int64_t n, int64_t k);
#pragma GCC visibility pop

}  // namespace xla_ffi_accelerate

#endif  // ACCELERATE_CORE_VECTOR_SORT_H_
