// Addition of a repeated row, on the CPU.

#ifndef XLA_FFI_OPS_MODULAR_ADD_MODULAR_ADD_H_
#define XLA_FFI_OPS_MODULAR_ADD_MODULAR_ADD_H_

#include <cstdint>

namespace xla_ffi_kit {

// a[i] = b[i % n] + c[i] for begin <= i < end, where b has n >= 1 elements.
//
// Integers wrap around; 16-bit floats are added in float and rounded once.
// `a` may be `c`; otherwise outputs must not overlap inputs. Any alignment.
// Defined for T = Float16, BFloat16, float, double, std::complex<float>,
// std::complex<double>, int8_t ... int64_t and uint8_t ... uint64_t.
template <typename T>
void ModularAdd(const T* b, int64_t n, const T* c, int64_t begin, int64_t end,
                T* a);

}  // namespace xla_ffi_kit

#endif  // XLA_FFI_OPS_MODULAR_ADD_MODULAR_ADD_H_
