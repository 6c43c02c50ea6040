// The numbers of a row that has a weight, on a CUDA device; plain C++ tests run
// them too. Products with a weight need whole elements, where those of
// rms_norm_pack.h work on components.

#ifndef XLA_FFI_OPS_RMS_NORM_RMS_NORM_ELEMENTS_H_
#define XLA_FFI_OPS_RMS_NORM_RMS_NORM_ELEMENTS_H_

#include "xla_ffi/core/accumulation_type.h"
#include "xla_ffi/core/cuda/pack.h"
#include "xla_ffi/core/host_device.h"
#include "xla_ffi/ops/rms_norm/rms_norm_pack.h"

namespace xla_ffi_kit::rms_norm_internal {

// Packs of `width` components, loaded `access` at a time: all at once, or one
// after the other where they are not aligned for that. A complex element is
// two components of one pack.
template <typename T, int width, int access, bool is_complex>
struct Elements {
  using R = T;
  using A = AccumulationType<R>;
  using Values = Pack<R, width>;
  using Wide = Pack<A, width>;
  static constexpr int W = width;
  static_assert(width % access == 0 && (!is_complex || width % 2 == 0));

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

  // a + b.
  XLA_FFI_KIT_HOST_DEVICE static Values Sum(const Values& a, const Values& b) {
    Values sum;
    for (int k = 0; k < W; ++k) {
      sum.values[k] = static_cast<R>(At(a, k) + At(b, k));
    }
    return sum;
  }

  // y = (x * scale) * weight, in this order: x * weight may overflow.
  XLA_FFI_KIT_HOST_DEVICE static Values Normalized(const Values& x, A scale,
                                                   const Values& weight) {
    const Wide y = Product(Scaled(x, scale), weight);
    Values rounded;
    for (int k = 0; k < W; ++k) rounded.values[k] = static_cast<R>(y.values[k]);
    return rounded;
  }

  // The sum of Re(x * g) over a pack, where g = weight * ct.
  XLA_FFI_KIT_HOST_DEVICE static A Dot(const Values& x, const Values& weight,
                                       const Values& ct) {
    const Wide g = Product(Scaled(ct, 1), weight);
    A sum = 0;
    for (int k = 0; k < W; ++k) sum += Conjugated(x, k, 0, kSign) * g.values[k];
    return sum;
  }

  // scale * (g - conj(x) * scale * mean) + ct_sum, see GradientPack().
  XLA_FFI_KIT_HOST_DEVICE static Values Gradient(const Values& x,
                                                 const Values& weight,
                                                 const Values& ct,
                                                 const Values& ct_sum, A scale,
                                                 A mean) {
    const Wide g = Product(Scaled(ct, 1), weight);
    Values dx;
    for (int k = 0; k < W; ++k) {
      const A y = Conjugated(x, k, 0, kSign) * scale;
      dx.values[k] =
          static_cast<R>(scale * (g.values[k] - y * mean) + At(ct_sum, k));
    }
    return dx;
  }

  // (x * scale) * ct.
  XLA_FFI_KIT_HOST_DEVICE static Wide WeightGradient(const Values& x, A scale,
                                                     const Values& ct) {
    return Product(Scaled(x, scale), ct);
  }

  XLA_FFI_KIT_HOST_DEVICE static Values Zeros() {
    Values zeros;
    for (int k = 0; k < W; ++k) zeros.values[k] = static_cast<R>(A(0));
    return zeros;
  }

 private:
  static constexpr A kSign = is_complex ? -1 : 1;  // of imaginary parts

  XLA_FFI_KIT_HOST_DEVICE static A At(const Values& values, int k) {
    return static_cast<A>(values.values[k]);
  }

  XLA_FFI_KIT_HOST_DEVICE static Wide Scaled(const Values& x, A scale) {
    Wide scaled;
    for (int k = 0; k < W; ++k) scaled.values[k] = At(x, k) * scale;
    return scaled;
  }

  // a * b, element by element.
  XLA_FFI_KIT_HOST_DEVICE static Wide Product(const Wide& a, const Values& b) {
    Wide product;
    if constexpr (is_complex) {
      for (int k = 0; k < W; k += 2) {
        const A real = a.values[k], imaginary = a.values[k + 1];
        product.values[k] = real * At(b, k) - imaginary * At(b, k + 1);
        product.values[k + 1] = real * At(b, k + 1) + imaginary * At(b, k);
      }
    } else {
      for (int k = 0; k < W; ++k) product.values[k] = a.values[k] * At(b, k);
    }
    return product;
  }
};

}  // namespace xla_ffi_kit::rms_norm_internal

#endif  // XLA_FFI_OPS_RMS_NORM_RMS_NORM_ELEMENTS_H_
