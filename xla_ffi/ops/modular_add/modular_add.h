// Addition of a repeated row:
//
//   a[..., i] = b[..., i % n] + c[..., i]
//
// Integers wrap around; 16-bit floats are added in float and rounded once. a
// may be c. Both handlers, for CPUs and for CUDA devices, take what the keys
// say, and n = 0 only if m = 0. The CUDA handler returns the error of its
// launch too, and may be captured in a command buffer.

#ifndef XLA_FFI_OPS_MODULAR_ADD_MODULAR_ADD_H_
#define XLA_FFI_OPS_MODULAR_ADD_MODULAR_ADD_H_

#include <type_traits>

#include "xla_ffi/core/call.h"
#include "xla_ffi/core/checks.h"
#include "xla_ffi/core/dtypes.h"
#include "xla_ffi/core/half.h"

namespace xla_ffi_kit::modular_add {

inline constexpr Operand b{"b", NumberTypes(), "(..., n)"};
inline constexpr Operand c{"c", SameDtype(b), "(..., m)"};
inline constexpr Result a{"a", c};
inline constexpr char kName[] = "xla_ffi_kit.modular_add";
using ModularAddCall = Call<kName, b, c, a>;

// There is nothing to repeat, unless there is nothing to compute.
inline xla::ffi::Error CheckPeriod(const ModularAddCall& call) {
  const Dimensions dims = call.get<b>().dims();
  if (dims.back() > 0 || call.get<c>().dims().back() == 0) return {};
  return call.Invalid<b>("a last axis of at least one element",
                         "shape " + ShapeText(dims));
}

// The type of the addition. Complex numbers are added by components. Signed
// integers are added as unsigned ones, because their overflow is undefined.
template <typename T, bool kIsInteger = std::is_integral_v<T>>
struct AddendOf {
  using type = ComponentType<T>;
};
template <typename T>
struct AddendOf<T, true> {
  using type = std::make_unsigned_t<T>;
};
template <typename T>
using Addend = typename AddendOf<T>::type;

}  // namespace xla_ffi_kit::modular_add

XLA_FFI_DECLARE_HANDLER_SYMBOL(XlaFfiKitModularAddCpu);
XLA_FFI_DECLARE_HANDLER_SYMBOL(XlaFfiKitModularAddCuda);

#endif  // XLA_FFI_OPS_MODULAR_ADD_MODULAR_ADD_H_
