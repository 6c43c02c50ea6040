// Which Elements a launch works on.

#ifndef XLA_FFI_OPS_RMS_NORM_RMS_NORM_WEIGHT_DISPATCH_H_
#define XLA_FFI_OPS_RMS_NORM_RMS_NORM_WEIGHT_DISPATCH_H_

#include <cstdint>

#include "xla_ffi/core/cuda/pack.h"
#include "xla_ffi/ops/rms_norm/rms_norm_elements.h"

namespace xla_ffi_kit::rms_norm_internal {

// Whether packs of the full width may begin at each of the pointers; null ones
// do not count.
template <typename... Ts>
bool AreAligned(const Ts*... pointers) {
  return (IsPackAligned(pointers) && ...);
}

// Returns fn(Elements<R, ...>()) for rows of n elements of so many components:
// wide packs where arrays are aligned and rows are whole packs.
template <typename R, typename Fn>
auto DispatchElements(int64_t n, int components, bool is_aligned,
                      const Fn& fn) {
  constexpr int kWidth = kPackWidth<R>;
  const bool is_wide = is_aligned && n * components % kWidth == 0;
  // There are complex numbers of float and double alone.
  if constexpr (sizeof(R) >= 4) {
    if (components == 2) {
      return is_wide ? fn(Elements<R, kWidth, kWidth, true>())
                     : fn(Elements<R, 2, 1, true>());
    }
  }
  return is_wide ? fn(Elements<R, kWidth, kWidth, false>())
                 : fn(Elements<R, 1, 1, false>());
}

}  // namespace xla_ffi_kit::rms_norm_internal

#endif  // XLA_FFI_OPS_RMS_NORM_RMS_NORM_WEIGHT_DISPATCH_H_
