// Random bits by the hash Threefry-2x32 with 20 rounds, on the CPU.
//
// Salmon et al., Parallel random numbers: as easy as 1, 2, 3 (SC 2011). The
// hash makes two 32-bit words of a key and a counter, of two words each; the
// layouts here are those of JAX's default generator.

#ifndef ACCELERATE_KERNELS_RANDOM_RANDOM_H_
#define ACCELERATE_KERNELS_RANDOM_RANDOM_H_

#include <cstdint>

#include "xla_ffi/core/call.h"

namespace xla_ffi_accelerate::random {

using namespace xla_ffi_kit;  // its types and threads

using Word32 = TypeList<uint32_t>;

// `jax.random.bits` for Threefry keys, key by key: the first axes of bits are
// the batch axes of keys. `partitionable` is `jax_threefry_partitionable`.
inline constexpr Operand keys{"keys", Word32(), "(..., 2)"};
inline constexpr Attribute<bool> partitionable{"partitionable"};
inline constexpr Result bits{"bits",
                             TypeList<uint8_t, uint16_t, uint32_t, uint64_t>()};
inline constexpr char kBitsName[] = "xla_ffi_accelerate.random_bits";
using RandomBitsCall = Call<kBitsName, keys, partitionable, bits>;

// The hash of each counter. key0 and key1 are scalars, or of the counters'
// shape.
inline constexpr Operand key0{"key0", Word32()};
inline constexpr Operand key1{"key1", key0};
inline constexpr Operand counter0{"counter0", Word32()};
inline constexpr Operand counter1{"counter1", counter0};
inline constexpr Result word0{"word0", counter0};
inline constexpr Result word1{"word1", counter0};
inline constexpr char kHashName[] = "xla_ffi_accelerate.threefry2x32";
using Threefry2x32Call =
    Call<kHashName, key0, key1, counter0, counter1, word0, word1>;

// The counters from which the elements of a key are made: `size` elements of
// `width` bytes each.
//
// Partitionable: element i is made of counter i. It is the exclusive or of the
// hash's two words, truncated to its width. An element of 64 bits is both
// words, with the first as the upper half.
//
// Otherwise the array consists of 32-bit words, the last one truncated. The
// counters (i, i + half) make the words i and i + half, where half is half the
// number of words, rounded up; a counter's word beyond the array is 0. An
// element of 64 bits is both words of a counter, as above, and half is `size`.
struct RandomBitsProblem {
  const uint32_t* keys = nullptr;  // [num_keys, 2]
  int64_t num_keys = 1;
  int64_t size = 0;
  int64_t width = 4;  // 1, 2, 4 or 8
  bool partitionable = true;
  void* out = nullptr;  // [num_keys, size]
};

// Words of one key, if it is not partitionable: counters have 32 bits.
inline constexpr int64_t kMaxRandomWords = (int64_t{1} << 32) - 2;

// The words that the elements of one key take.
inline int64_t RandomWords(int64_t size, int64_t width) {
  return size / 4 * width + (size % 4 * width + 3) / 4;
}

// If not partitionable, RandomWords(size, width) <= kMaxRandomWords.
void RandomBits(const RandomBitsProblem& problem, const Executor& executor);

// The hash itself, of arrays of words.
struct Threefry2x32Problem {
  int64_t size = 0;
  bool is_one_key = false;  // for all counters
  const uint32_t* keys[2] = {};
  const uint32_t* counters[2] = {};
  uint32_t* out[2] = {};  // apart from every input
};

void Threefry2x32(const Threefry2x32Problem& problem, const Executor& executor);

}  // namespace xla_ffi_accelerate::random

XLA_FFI_DECLARE_HANDLER_SYMBOL(XlaFfiAccelerateRandomBitsCpu);
XLA_FFI_DECLARE_HANDLER_SYMBOL(XlaFfiAccelerateThreefry2x32Cpu);

#endif  // ACCELERATE_KERNELS_RANDOM_RANDOM_H_
