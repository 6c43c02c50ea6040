// The kinds of C++ types, for tests of what works on keys.

#ifndef XLA_FFI_OPS_SORT_KIND_OF_TYPE_H_
#define XLA_FFI_OPS_SORT_KIND_OF_TYPE_H_

#include <type_traits>

#include "xla_ffi/core/half.h"
#include "xla_ffi/ops/sort/pack.h"

namespace xla_ffi_kit {

template <typename T>
KeyKind KindOf() {
  if (std::is_same_v<T, Float16>) return KeyKind::kF16;
  if (std::is_same_v<T, BFloat16>) return KeyKind::kBF16;
  if (std::is_same_v<T, float>) return KeyKind::kF32;
  if (std::is_same_v<T, double>) return KeyKind::kF64;
  return std::is_signed_v<T> ? KeyKind::kSigned : KeyKind::kUnsigned;
}

}  // namespace xla_ffi_kit

#endif  // XLA_FFI_OPS_SORT_KIND_OF_TYPE_H_
