// Packs: neighbouring elements that a GPU loads or stores at once.
//
// A GPU reaches its memory's speed with 128 bits per thread and access. All
// functions run on the CPU too, where they are plain copies.

#ifndef XLA_FFI_CORE_CUDA_PACK_H_
#define XLA_FFI_CORE_CUDA_PACK_H_

#include <cassert>
#include <cstdint>
#include <cstring>

#include "xla_ffi/core/host_device.h"

namespace xla_ffi_kit {

// The widest access there is.
inline constexpr int kPackBytes = 16;

// Elements of type T in it.
template <typename T>
inline constexpr int kPackWidth = kPackBytes / static_cast<int>(sizeof(T));

template <typename T, int N>
struct Pack {
  T values[N];
};

// A width known at compile time, as an argument.
template <int N>
struct Width {};

namespace pack_internal {

template <int bytes>
struct Bits;
template <>
struct Bits<1> {
  using type = uint8_t;
};
template <>
struct Bits<2> {
  using type = uint16_t;
};
template <>
struct Bits<4> {
  using type = uint32_t;
};
template <>
struct Bits<8> {
  using type = uint64_t;
};
template <>
struct Bits<16> {
  // The alignment makes it one access instead of four.
  struct alignas(16) type {
    uint32_t x, y, z, w;
  };
};

}  // namespace pack_internal

// `p` is a multiple of sizeof(T) * N.
template <int N, typename T>
XLA_FFI_KIT_HOST_DEVICE inline Pack<T, N> LoadPack(const T* p) {
  Pack<T, N> pack;
#ifdef __CUDA_ARCH__
  using Bits = typename pack_internal::Bits<sizeof(pack)>::type;
  const Bits bits = *reinterpret_cast<const Bits*>(p);
  memcpy(&pack, &bits, sizeof(pack));
#else
  assert(reinterpret_cast<uintptr_t>(p) % sizeof(pack) == 0);
  std::memcpy(static_cast<void*>(&pack), p, sizeof(pack));
#endif
  return pack;
}

// `p` is a multiple of sizeof(T) * N.
template <int N, typename T>
XLA_FFI_KIT_HOST_DEVICE inline void StorePack(const Pack<T, N>& pack, T* p) {
#ifdef __CUDA_ARCH__
  using Bits = typename pack_internal::Bits<sizeof(pack)>::type;
  Bits bits;
  memcpy(&bits, &pack, sizeof(pack));
  *reinterpret_cast<Bits*>(p) = bits;
#else
  assert(reinterpret_cast<uintptr_t>(p) % sizeof(pack) == 0);
  std::memcpy(static_cast<void*>(p), &pack, sizeof(pack));
#endif
}

// Whether packs of the full width may begin at `p`.
inline bool IsPackAligned(const void* p) {
  return reinterpret_cast<uintptr_t>(p) % kPackBytes == 0;
}

}  // namespace xla_ffi_kit

#endif  // XLA_FFI_CORE_CUDA_PACK_H_
