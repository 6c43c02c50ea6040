#include "xla_ffi/ops/modular_add/modular_add.h"

#include <algorithm>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "xla_ffi/core/components.h"
#include "xla_ffi/core/half.h"
#include "xla_ffi/core/simd_targets.h"

// Compiles the rest of this file once per instruction set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "xla_ffi/ops/modular_add/modular_add.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// Must come after foreach_target.h.
#include "hwy/highway.h"
#include "xla_ffi/core/simd_float-inl.h"

HWY_BEFORE_NAMESPACE();
namespace xla_ffi_kit {
namespace HWY_NAMESPACE {

template <typename R>
struct AddBody {
  const R* b;
  const R* c;
  R* a;

  template <class Access>
  HWY_INLINE void operator()(Access access, size_t i) const {
    const WideTag<R> d;
    access.Store(Add(access.Load(d, b + i), access.Load(d, c + i)), d, a + i);
  }
};

// a[i] = b[i % n] + c[i] for begin <= i < end, in whole runs of b, so that the
// inner loop has no remainder in it.
template <typename R>
void AddRuns(const R* b, int64_t n, const R* c, int64_t begin, int64_t end,
             R* a) {
  // A short b is repeated first: its runs would be shorter than the loop's
  // vectors. To a quarter of the range at most, so that repeating costs little
  // beside adding, and within 4 KiB of stack, which stay in the cache. Aligned:
  // else every vector of AVX-512 is read from two cache lines.
  constexpr int64_t kRepeated = 4096 / sizeof(R);
  HWY_ALIGN R repeated[kRepeated];
  const int64_t most = std::min(kRepeated, (end - begin) / 4);
  if (2 * n <= most) {
    std::copy_n(b, n, repeated);
    b = repeated;
    for (; 2 * n <= most; n *= 2) std::copy_n(b, n, repeated + n);
  }
  for (int64_t i = begin; i < end;) {
    const int64_t offset = i % n;
    const int64_t run = std::min(n - offset, end - i);
    const AddBody<R> body = {b + offset, c + i, a + i};
    ForEachVector(WideTag<R>(), static_cast<size_t>(run), body);
    i += run;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace xla_ffi_kit
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace xla_ffi_kit {
namespace {

// The type of the addition. Complex numbers are added by components. Signed
// integers are added as unsigned ones, because their overflow is undefined.
template <typename T, bool kIsInteger = std::is_integral_v<T>>
struct Addend {
  using type = ComponentType<T>;
};
template <typename T>
struct Addend<T, true> {
  using type = std::make_unsigned_t<T>;
};

}  // namespace

template <typename T>
void ModularAdd(const T* b, int64_t n, const T* c, int64_t begin, int64_t end,
                T* a) {
  using R = typename Addend<T>::type;
  constexpr int64_t k = kComponents<T>;
  HWY_EXPORT_T(Table, AddRuns<R>);
  HWY_DYNAMIC_DISPATCH_T(Table)
  (reinterpret_cast<const R*>(b), k * n, reinterpret_cast<const R*>(c),
   k * begin, k * end, reinterpret_cast<R*>(a));
}

#define XLA_FFI_KIT_INSTANTIATE(T) \
  template void ModularAdd(const T*, int64_t, const T*, int64_t, int64_t, T*)
XLA_FFI_KIT_INSTANTIATE(Float16);
XLA_FFI_KIT_INSTANTIATE(BFloat16);
XLA_FFI_KIT_INSTANTIATE(float);
XLA_FFI_KIT_INSTANTIATE(double);
XLA_FFI_KIT_INSTANTIATE(std::complex<float>);
XLA_FFI_KIT_INSTANTIATE(std::complex<double>);
XLA_FFI_KIT_INSTANTIATE(int8_t);
XLA_FFI_KIT_INSTANTIATE(int16_t);
XLA_FFI_KIT_INSTANTIATE(int32_t);
XLA_FFI_KIT_INSTANTIATE(int64_t);
XLA_FFI_KIT_INSTANTIATE(uint8_t);
XLA_FFI_KIT_INSTANTIATE(uint16_t);
XLA_FFI_KIT_INSTANTIATE(uint32_t);
XLA_FFI_KIT_INSTANTIATE(uint64_t);
#undef XLA_FFI_KIT_INSTANTIATE

}  // namespace xla_ffi_kit

#endif  // HWY_ONCE
