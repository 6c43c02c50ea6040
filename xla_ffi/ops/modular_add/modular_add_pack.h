// One thread's step of the CUDA kernel; plain C++ tests run it too.

#ifndef XLA_FFI_OPS_MODULAR_ADD_MODULAR_ADD_PACK_H_
#define XLA_FFI_OPS_MODULAR_ADD_MODULAR_ADD_PACK_H_

#include <cstdint>

#include "xla_ffi/core/cuda/pack.h"
#include "xla_ffi/core/host_device.h"
#include "xla_ffi/ops/modular_add/modular_add_element.h"

namespace xla_ffi_kit {

struct QuotientAndRemainder {
  uint64_t quotient;
  uint64_t remainder;
};

// A GPU divides 64-bit numbers in a hundred instructions, and 32-bit ones in
// twenty: the usual case is worth the test.
XLA_FFI_KIT_HOST_DEVICE inline QuotientAndRemainder Divide(uint64_t a,
                                                           uint64_t b) {
  if (((a | b) >> 32) == 0) {
    const uint32_t low_a = static_cast<uint32_t>(a);
    const uint32_t low_b = static_cast<uint32_t>(b);
    return {low_a / low_b, low_a % low_b};
  }
  return {a / b, a % b};
}

// a[r, i] = b[r, i % n] + c[r, i] for rows of m elements of a and c and n of
// b; element numbers count through all rows.
template <typename T>
struct ModularAddPack {
  const T* b;
  int64_t n;
  const T* c;
  int64_t m;
  T* a;
  bool packs_of_b;  // no pack crosses the end of b's row, or of c's

  template <int N>
  XLA_FFI_KIT_HOST_DEVICE void operator()(int64_t first, Width<N>) const {
    const QuotientAndRemainder row = Divide(first, m);
    int64_t in_row = static_cast<int64_t>(row.remainder);
    int64_t in_b = static_cast<int64_t>(Divide(row.remainder, n).remainder);
    const T* b_row = b + static_cast<int64_t>(row.quotient) * n;
    Pack<T, N> pack = LoadPack<N>(c + first);
    if (packs_of_b) {
      const Pack<T, N> left = LoadPack<N>(b_row + in_b);
      for (int k = 0; k < N; ++k) {
        pack.values[k] = AddElements(left.values[k], pack.values[k]);
      }
    } else {
      for (int k = 0; k < N; ++k) {
        pack.values[k] = AddElements(b_row[in_b], pack.values[k]);
        ++in_row;
        ++in_b;
        if (in_row == m) {
          b_row += n;
          in_row = in_b = 0;
        } else if (in_b == n) {
          in_b = 0;
        }
      }
    }
    StorePack(pack, a + first);
  }
};

// The step whose packs have `width` elements; 1 needs no alignment.
template <typename T>
ModularAddPack<T> MakeModularAddPack(const T* b, int64_t n, const T* c,
                                     int64_t m, T* a, int width) {
  const bool packs_of_b =
      width == 1 || (n % width == 0 && m % width == 0 && IsPackAligned(b));
  return {b, n, c, m, a, packs_of_b};
}

}  // namespace xla_ffi_kit

#endif  // XLA_FFI_OPS_MODULAR_ADD_MODULAR_ADD_PACK_H_
