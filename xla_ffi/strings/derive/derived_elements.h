// The derivatives of a function of elements, of which the derivatives are such
// functions again; on CPUs and on CUDA devices.
//
// A function has kIns arrays and kOuts results. For any type of numbers T it
// takes their elements, f(const T* in, T* out). The bits of `kActive` say
// towards which arrays it is differentiated.
//
//   Jvp(x..., tangents of active x...) -> tangents of the results
//   Vjp(x..., cotangents of the results...) -> cotangents of active x

#ifndef XLA_FFI_STRINGS_DERIVE_DERIVED_ELEMENTS_H_
#define XLA_FFI_STRINGS_DERIVE_DERIVED_ELEMENTS_H_

#include <cstdint>

#include "xla_ffi/strings/derive/dual.h"

namespace kit {

constexpr int Count(uint64_t bits) {
  int count = 0;
  for (; bits != 0; bits &= bits - 1) ++count;
  return count;
}
constexpr bool Has(uint64_t bits, int i) { return (bits >> i & 1) != 0; }
// How many bits are set before bit `i`.
constexpr int Before(uint64_t bits, int i) {
  return Count(bits & ((uint64_t{1} << i) - 1));
}

template <typename F, uint64_t kActive>
struct ElementJvp {
  static constexpr int kIns = F::kIns + Count(kActive), kOuts = F::kOuts;
  F f;

  template <typename T>
  void operator()(const T* in, T* out) const {
    using Number = Dual<T, 1>;
    Number x[F::kIns], y[kOuts];
    for (int i = 0; i < F::kIns; ++i) {
      x[i].v = in[i];
      if (Has(kActive, i)) x[i].d[0] = in[F::kIns + Before(kActive, i)];
    }
    f(static_cast<const Number*>(x), y);
    for (int k = 0; k < kOuts; ++k) out[k] = y[k].d[0];
  }
};

// All slopes of an element in one pass.
template <typename F, uint64_t kActive>
struct ElementVjp {
  static constexpr int kIns = F::kIns + F::kOuts, kOuts = Count(kActive);
  F f;

  template <typename T>
  void operator()(const T* in, T* out) const {
    using Number = Dual<T, kOuts>;
    Number x[F::kIns], y[F::kOuts];
    for (int i = 0; i < F::kIns; ++i) {
      x[i].v = in[i];
      if (Has(kActive, i)) x[i].d[Before(kActive, i)] = T(1);
    }
    f(static_cast<const Number*>(x), y);
    for (int j = 0; j < kOuts; ++j) {
      T sum = T(0);
      for (int k = 0; k < F::kOuts; ++k) {
        sum += Times(T(y[k].d[j]), T(in[F::kIns + k]));
      }
      out[j] = sum;
    }
  }
};

// One element of arrays of T, which is computed in another type.
template <typename T, typename F>
void DeriveElement(const F& f, const T* in, T* out) {
  using S = Accumulate<T>;
  S x[F::kIns], y[F::kOuts];
  for (int k = 0; k < F::kIns; ++k) x[k] = in[k];
  f(static_cast<const S*>(x), y);
  for (int k = 0; k < F::kOuts; ++k) out[k] = T(y[k]);
}

}  // namespace kit

#endif  // XLA_FFI_STRINGS_DERIVE_DERIVED_ELEMENTS_H_
