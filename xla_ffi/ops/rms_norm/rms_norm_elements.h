// The numbers of a row on a CUDA device, by the pack; plain C++ tests run them
// too.

#ifndef XLA_FFI_OPS_RMS_NORM_RMS_NORM_ELEMENTS_H_
#define XLA_FFI_OPS_RMS_NORM_RMS_NORM_ELEMENTS_H_

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "xla_ffi/core/accumulation_type.h"
#include "xla_ffi/core/components.h"
#include "xla_ffi/core/cuda/pack.h"
#include "xla_ffi/core/host_device.h"

namespace xla_ffi_kit::rms_norm_internal {

// 1 / sqrt(value), rounded to A once, or nearly so.
//
// A division and a square root of doubles are 100 instructions, which short
// rows would feel. For a float result one Newton step from the device's
// approximation does: it squares an error of 2^-22. The branch also keeps what
// follows from being computed ahead, in registers that there are not.
template <typename A>
XLA_FFI_KIT_HOST_DEVICE inline A ReciprocalSqrt(double value) {
#ifdef __CUDA_ARCH__
  const bool is_float_range = value > 1e-30 && value < 1e30;
  if (std::is_same_v<A, float> && is_float_range) {
    const double guess = rsqrtf(static_cast<float>(value));
    return static_cast<A>(guess * (1.5 - 0.5 * value * guess * guess));
  }
#endif
  return static_cast<A>(1 / sqrt(value));
}

// Packs of `width` components of elements T, loaded `access` at a time: all at
// once, or one after the other where they are not aligned for that. A complex
// element is two components of one pack.
template <typename T, int width, int access>
struct Elements {
  using R = ComponentType<T>;
  using A = AccumulationType<R>;
  using Values = Pack<R, width>;
  using Wide = Pack<A, width>;  // widened to what is computed in
  static constexpr int W = width;
  static constexpr bool kIsComplex = kComponents<T> == 2;
  static_assert(width % access == 0 && width % kComponents<T> == 0);

  XLA_FFI_KIT_HOST_DEVICE static Values Load(const R* p) {
    Values values;
    for (int k = 0; k < W; k += access) {
      const Pack<R, access> part = LoadPack<access>(p + k);
      for (int i = 0; i < access; ++i) values.values[k + i] = part.values[i];
    }
    return values;
  }

  XLA_FFI_KIT_HOST_DEVICE static void Store(const Values& values, R* p) {
    for (int k = 0; k < W; k += access) {
      Pack<R, access> part;
      for (int i = 0; i < access; ++i) part.values[i] = values.values[k + i];
      StorePack(part, p + k);
    }
  }

  XLA_FFI_KIT_HOST_DEVICE static Wide Widened(const Values& values) {
    Wide wide;
    for (int k = 0; k < W; ++k) {
      wide.values[k] = static_cast<A>(values.values[k]);
    }
    return wide;
  }

  XLA_FFI_KIT_HOST_DEVICE static Values Rounded(const Wide& wide) {
    Values values;
    for (int k = 0; k < W; ++k) {
      values.values[k] = static_cast<R>(wide.values[k]);
    }
    return values;
  }

  // a + b.
  XLA_FFI_KIT_HOST_DEVICE static Wide Sum(Wide a, const Wide& b) {
    for (int k = 0; k < W; ++k) a.values[k] += b.values[k];
    return a;
  }

  // x * scale.
  XLA_FFI_KIT_HOST_DEVICE static Wide Scaled(Wide x, A scale) {
    for (int k = 0; k < W; ++k) x.values[k] *= scale;
    return x;
  }

  // a * b, element by element.
  XLA_FFI_KIT_HOST_DEVICE static Wide Product(const Wide& a,
                                              const Wide& other) {
    Wide product;
    if constexpr (kIsComplex) {
      for (int k = 0; k < W; k += 2) {
        const A real = a.values[k], imaginary = a.values[k + 1];
        product.values[k] =
            real * other.values[k] - imaginary * other.values[k + 1];
        product.values[k + 1] =
            real * other.values[k + 1] + imaginary * other.values[k];
      }
    } else {
      for (int k = 0; k < W; ++k) {
        product.values[k] = a.values[k] * other.values[k];
      }
    }
    return product;
  }

  // The sum of |x|^2 over a pack, in A: a thread adds few of them before it
  // goes on in double.
  XLA_FFI_KIT_HOST_DEVICE static A Power(const Wide& x) {
    A sum = 0;
    for (int k = 0; k < W; ++k) sum += x.values[k] * x.values[k];
    return sum;
  }

  // The sum of Re(x * g) over a pack.
  XLA_FFI_KIT_HOST_DEVICE static A Dot(const Wide& x, const Wide& g) {
    const Wide conjugate = Conjugate(x);
    A sum = 0;
    for (int k = 0; k < W; ++k) sum += conjugate.values[k] * g.values[k];
    return sum;
  }

  // scale * (g - conj(x) * scale * mean), where mean is that of Re(x * g) times
  // scale. In this form every factor is of the order of its row; the cube of
  // scale may overflow.
  XLA_FFI_KIT_HOST_DEVICE static Wide Backward(const Wide& x, Wide g, A scale,
                                               A mean) {
    const Wide conjugate = Conjugate(x);
    for (int k = 0; k < W; ++k) {
      const A y = conjugate.values[k] * scale;
      g.values[k] = scale * (g.values[k] - y * mean);
    }
    return g;
  }

 private:
  XLA_FFI_KIT_HOST_DEVICE static Wide Conjugate(Wide wide) {
    if constexpr (kIsComplex) {
      for (int k = 1; k < W; k += 2) wide.values[k] = -wide.values[k];
    }
    return wide;
  }
};

// Whether packs of the full width may begin at each of the pointers; null ones
// do not count.
template <typename... Ts>
bool AreAligned(const Ts*... pointers) {
  return (IsPackAligned(pointers) && ...);
}

// Whether E has the kernels that keep a row in registers or in shared memory.
template <typename E>
inline constexpr bool kKeepsRows = E::W * sizeof(typename E::R) == kPackBytes &&
                                   std::is_same_v<typename E::A, float>;

// Returns fn(Elements<T, ...>(), packs) for rows of n elements: wide packs
// where arrays are aligned and rows are whole packs, else one element at a
// time, as always for f64 and complex numbers, which are rare on GPUs. `packs`
// make a row.
template <typename T, typename Fn>
auto DispatchElements(int64_t n, bool is_aligned, const Fn& fn) {
  if constexpr (std::is_same_v<AccumulationType<T>, float> &&
                kComponents<T> == 1) {
    constexpr int kWidth = kPackWidth<T>;
    if (is_aligned && n % kWidth == 0) {
      return fn(Elements<T, kWidth, kWidth>(), n / kWidth);
    }
  }
  return fn(Elements<T, kComponents<T>, 1>(), n);
}

}  // namespace xla_ffi_kit::rms_norm_internal

#endif  // XLA_FFI_OPS_RMS_NORM_RMS_NORM_ELEMENTS_H_
