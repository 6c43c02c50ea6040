// Types that XLA keeps for handlers: state and user data.
//
//   struct Counter {
//     static xla::ffi::TypeId id;
//     std::atomic<int64_t> runs = 0;
//   };
//
//   XLA_FFI_KIT_DEFINE_TYPE(ExampleCounter, Counter);
//
// and in the BUILD file
//
//   xla_ffi_library(types = {"example.counter": "ExampleCounter"}, ...)
//
// registers the type with XLA before the handlers that use it.

#ifndef XLA_FFI_CORE_DEFINE_TYPE_H_
#define XLA_FFI_CORE_DEFINE_TYPE_H_

#include "xla/ffi/api/ffi.h"

// Defines `Type::id`, which XLA fills in, and the C functions
// `<Symbol>_type_id` and `<Symbol>_type_info` that the handler table names. Use
// it in the namespace of `Type`, or in one around it. Objects are deleted with
// `delete`.
#define XLA_FFI_KIT_DEFINE_TYPE(Symbol, Type)                                  \
  ::xla::ffi::TypeId Type::id = {};                                            \
  XLA_FFI_DECLARE_TYPE_ID_SYMBOL(Symbol##_type_id);                            \
  XLA_FFI_DECLARE_TYPE_INFO_SYMBOL(Symbol##_type_info);                        \
  extern "C" XLA_FFI_TypeId* Symbol##_type_id() { return &Type::id; }          \
  extern "C" const XLA_FFI_TypeInfo* Symbol##_type_info() {                    \
    static constexpr XLA_FFI_TypeInfo info = ::xla::ffi::MakeTypeInfo<Type>(); \
    return &info;                                                              \
  }                                                                            \
  static_assert(std::is_same_v<decltype(Type::id), ::xla::ffi::TypeId>,        \
                "the type needs a member `static xla::ffi::TypeId id`")

#endif  // XLA_FFI_CORE_DEFINE_TYPE_H_
