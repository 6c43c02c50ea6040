// The type in which an operation on elements of type T adds and multiplies.

#ifndef XLA_FFI_CORE_ACCUMULATION_TYPE_H_
#define XLA_FFI_CORE_ACCUMULATION_TYPE_H_

#include "xla_ffi/core/dtypes.h"

namespace xla_ffi_kit {

// The type of sums of T's. For floats it is real and has at least 32 bits:
// float for Float16, BFloat16, float and complex<float>; double for double and
// complex<double>. Otherwise it is T itself.
template <typename T>
using AccumulationType = typename dtype_internal::Traits<T>::Accumulation;

}  // namespace xla_ffi_kit

#endif  // XLA_FFI_CORE_ACCUMULATION_TYPE_H_
