// Packs: neighboring elements that a GPU loads or stores at once.
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

using std::memcpy;  // CUDA's own has no namespace

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
  memcpy(static_cast<void*>(&pack), p, sizeof(pack));
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
  memcpy(static_cast<void*>(p), &pack, sizeof(pack));
#endif
}

// A pack of the full width as it lies in registers: four of them, where the
// values of a Pack of 16-bit numbers may take eight.
using PackBits = pack_internal::Bits<kPackBytes>::type;

template <typename T>
XLA_FFI_KIT_HOST_DEVICE inline Pack<T, kPackWidth<T>> ToPack(
    const PackBits& bits) {
  Pack<T, kPackWidth<T>> pack;
  memcpy(static_cast<void*>(&pack), &bits, sizeof(pack));
  return pack;
}

template <typename T, int N>
XLA_FFI_KIT_HOST_DEVICE inline PackBits ToBits(const Pack<T, N>& pack) {
  PackBits bits;
  static_assert(sizeof(pack) == sizeof(bits));
  memcpy(static_cast<void*>(&bits), &pack, sizeof(bits));
  return bits;
}

// Returns the same bits, but hides that from the compiler. Otherwise it would
// keep converted values, in twice the registers, or convert long before the
// use.
XLA_FFI_KIT_HOST_DEVICE inline PackBits Again(PackBits bits) {
#ifdef __CUDA_ARCH__
  asm volatile("" : "+r"(bits.x), "+r"(bits.y), "+r"(bits.z), "+r"(bits.w));
#endif
  return bits;
}

// Pack number `pack` of an array that is read once, and so does not stay in the
// caches, ...
template <typename T>
XLA_FFI_KIT_HOST_DEVICE inline PackBits LoadOnce(const T* p, int64_t pack) {
#ifdef __CUDA_ARCH__
  const uint4 bits = __ldcs(reinterpret_cast<const uint4*>(p) + pack);
  return {bits.x, bits.y, bits.z, bits.w};
#else
  return ToBits(LoadPack<kPackWidth<T>>(p + pack * kPackWidth<T>));
#endif
}

// ... of one that every row reads, and nobody writes, ...
template <typename T>
XLA_FFI_KIT_HOST_DEVICE inline PackBits LoadOften(const T* p, int64_t pack) {
#ifdef __CUDA_ARCH__
  const uint4 bits = __ldg(reinterpret_cast<const uint4*>(p) + pack);
  return {bits.x, bits.y, bits.z, bits.w};
#else
  return ToBits(LoadPack<kPackWidth<T>>(p + pack * kPackWidth<T>));
#endif
}

// ... and of one that the kernel does not read again.
template <typename T>
XLA_FFI_KIT_HOST_DEVICE inline void StoreOnce(const PackBits& bits, T* p,
                                              int64_t pack) {
#ifdef __CUDA_ARCH__
  __stcs(reinterpret_cast<uint4*>(p) + pack,
         make_uint4(bits.x, bits.y, bits.z, bits.w));
#else
  StorePack(ToPack<T>(bits), p + pack * kPackWidth<T>);
#endif
}

// Whether packs of the full width may begin at `p`.
inline bool IsPackAligned(const void* p) {
  return reinterpret_cast<uintptr_t>(p) % kPackBytes == 0;
}

}  // namespace xla_ffi_kit

#endif  // XLA_FFI_CORE_CUDA_PACK_H_
