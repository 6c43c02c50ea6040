// The FFI handlers of random bits, on the CPU: the layouts are in random.h.
//
// Target xla_ffi_accelerate.random_bits: keys[..., 2] -> bits[..., n...]
//
// Computes `jax.random.bits` for Threefry keys. keys: u32; bits: u8, u16, u32
// or u64, key by key. Attribute partitionable: pred, the value of
// `jax_threefry_partitionable`.
//
// Target xla_ffi_accelerate.threefry2x32:
//   (key0, key1, counter0[...], counter1[...]) -> (word0[...], word1[...])
//
// The hash of each counter. key0, key1: scalars, or of the counters' shape;
// all u32. Errors are INVALID_ARGUMENT.

#ifndef ACCELERATE_KERNELS_RANDOM_RANDOM_HANDLER_H_
#define ACCELERATE_KERNELS_RANDOM_RANDOM_HANDLER_H_

#include "xla/ffi/api/ffi.h"

XLA_FFI_DECLARE_HANDLER_SYMBOL(XlaFfiAccelerateRandomBitsCpu);
XLA_FFI_DECLARE_HANDLER_SYMBOL(XlaFfiAccelerateThreefry2x32Cpu);

#endif  // ACCELERATE_KERNELS_RANDOM_RANDOM_HANDLER_H_
