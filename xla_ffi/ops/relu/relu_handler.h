// The FFI handlers of the rectified linear unit, on the CPU and on CUDA
// devices.
//
// Target xla_ffi_kit.relu: (x T[...]) -> y like x, y = max(x, 0), any rank.
// T: f16, bf16, f32, f64, s8 to s64. Errors are INVALID_ARGUMENT: another
// dtype, a result that is not like x. The CUDA handler returns the error of its
// launch too, and may be captured in a command buffer.

#ifndef XLA_FFI_OPS_RELU_RELU_HANDLER_H_
#define XLA_FFI_OPS_RELU_RELU_HANDLER_H_

#include "xla/ffi/api/ffi.h"
#include "xla_ffi/core/signature.h"

namespace xla_ffi_kit::relu_internal {

inline constexpr Argument kArguments[] = {
    Operand("operand x").Of(SignedTypes()),
    Result("result y").Like(0),
};
inline constexpr XlaFfiKit_Signature kRelu =
    MakeSignature("xla_ffi_kit.relu", kArguments);

}  // namespace xla_ffi_kit::relu_internal

XLA_FFI_DECLARE_HANDLER_SYMBOL(XlaFfiKitReluCpu);
XLA_FFI_DECLARE_HANDLER_SYMBOL(XlaFfiKitReluCuda);

#endif  // XLA_FFI_OPS_RELU_RELU_HANDLER_H_
