// Arrays of keys, with the widest vectors of this CPU: their codes, and their
// parts below a bound.

#ifndef ACCELERATE_KERNELS_SORT_VECTOR_KEYS_H_
#define ACCELERATE_KERNELS_SORT_VECTOR_KEYS_H_

#include <cstdint>

#include "accelerate/core/packed_key.h"

namespace xla_ffi_accelerate::sort {

// Code is IntegerCode<K> of any K, or FloatCode<K> of 16, 32 and 64 bits.

// Writes the codes of in[0, n) to codes[0, n), which may be `in`. Returns
// whether a code stands for other bits than those it decodes to: -0.0, a
// subnormal, or a NaN with a payload.
template <typename Code>
bool EncodeKeys(const Code& code, const typename Code::Key* in, int64_t n,
                typename Code::Key* codes);

// Decodes codes[0, n) in place.
template <typename Code>
void DecodeKeys(const Code& code, int64_t n, typename Code::Key* codes);

// packed[i] = (code of in[i], first + i), see packed_key.h. Packed is uint64_t,
// for keys of at most 32 bits, or Pair64.
template <typename Code, typename Packed>
void PackKeys(const Code& code, const typename Code::Key* in, int64_t n,
              int64_t first, Packed* packed);

// keys[i] = the key whose code is in packed[i].
template <typename Code, typename Packed>
void UnpackKeys(const Code& code, const Packed* packed, int64_t n,
                typename Code::Key* keys);

// A vector of the narrowest keys: SplitKeys writes whole ones.
inline constexpr int64_t kSplitSlack = 16;

// Below, Packed is uint32_t, uint64_t or Pair64.

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

#endif  // ACCELERATE_KERNELS_SORT_VECTOR_KEYS_H_
