// Codes of arrays of keys, with the widest vectors of this CPU.

#ifndef ACCELERATE_KERNELS_SORT_VECTOR_CODES_H_
#define ACCELERATE_KERNELS_SORT_VECTOR_CODES_H_

#include <cstdint>

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

}  // namespace xla_ffi_accelerate::sort

#endif  // ACCELERATE_KERNELS_SORT_VECTOR_CODES_H_
