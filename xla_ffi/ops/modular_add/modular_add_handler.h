// The FFI handlers of the addition of a repeated row, on the CPU and on CUDA
// devices.
//
// Target xla_ffi_kit.modular_add: (b T[..., n], c T[..., m]) -> a T[..., m],
//
//   a[..., i] = b[..., i % n] + c[..., i]
//
// with the same batch axes [...] in all three. T: f16, bf16, f32, f64, c64,
// c128, s8 to s64, u8 to u64. Errors are INVALID_ARGUMENT: rank 0, batch axes
// or dtypes that differ, another dtype, n = 0 with m > 0. The CUDA handler
// returns the error of its launch too, and may be captured in a command buffer.

#ifndef XLA_FFI_OPS_MODULAR_ADD_MODULAR_ADD_HANDLER_H_
#define XLA_FFI_OPS_MODULAR_ADD_MODULAR_ADD_HANDLER_H_

#include "xla/ffi/api/ffi.h"
#include "xla_ffi/core/signature.h"

namespace xla_ffi_kit::modular_add_internal {

inline constexpr Argument kArguments[] = {
    Operand("operand b").Of(NumberTypes()).RankAtLeast(1),
    Operand("operand c").DtypeOf(0).RankAtLeast(1),
    Result("result a").Like(1),
};
inline constexpr XlaFfiKit_Signature kModularAdd =
    MakeSignature("xla_ffi_kit.modular_add", kArguments);

}  // namespace xla_ffi_kit::modular_add_internal

XLA_FFI_DECLARE_HANDLER_SYMBOL(XlaFfiKitModularAddCpu);
XLA_FFI_DECLARE_HANDLER_SYMBOL(XlaFfiKitModularAddCuda);

#endif  // XLA_FFI_OPS_MODULAR_ADD_MODULAR_ADD_HANDLER_H_
