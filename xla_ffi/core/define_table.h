// The handler table of a library that no xla_ffi_library() builds:
//
//   #include "xla/ffi/api/ffi.h"
//   #include "xla_ffi/core/define_table.h"
//   ...
//   XLA_FFI_DEFINE_HANDLER_SYMBOL(Scale, ...);
//
//   XLA_FFI_KIT_DEFINE_TABLE("my_ops", XLA_FFI_KIT_HANDLER("my.scale", Scale));
//
// in one of its files. It needs nothing of XLA's but c_api.h.

#ifndef XLA_FFI_CORE_DEFINE_TABLE_H_
#define XLA_FFI_CORE_DEFINE_TABLE_H_

#include <cstddef>
#include <cstring>

#include "xla/ffi/api/c_api.h"
#include "xla_ffi/core/handler_table.h"

// Set if the library has a parallel loop, or needs one (strings/threads.h).
extern "C" {
__attribute__((weak)) extern XlaFfiKit_ParallelForFn* XlaFfiKit_parallel_for;
}

namespace xla_ffi_kit {
namespace define_table_internal {

inline XLA_FFI_ByteSpan Span(const char* text) {
  return {text, std::strlen(text)};
}

// Registers the table's types, which XLA wants first, then its handlers; null,
// or XLA's first error.
inline XLA_FFI_Error* Register(const XLA_FFI_Api* api,
                               const XlaFfiKit_HandlerTable& table) {
  for (size_t i = 0; i < table.num_types; ++i) {
    const XlaFfiKit_Type& type = table.types[i];
    XLA_FFI_Type_Register_Args args = {};
    args.struct_size = XLA_FFI_Type_Register_Args_STRUCT_SIZE;
    args.name = Span(type.name);
    args.type_id = type.type_id;
    args.type_info = type.type_info;
    if (XLA_FFI_Error* error = api->XLA_FFI_Type_Register(&args)) return error;
  }
  for (size_t i = 0; i < table.num_handlers; ++i) {
    const XlaFfiKit_Handler& handler = table.handlers[i];
    XLA_FFI_Handler_Register_Args args = {};
    args.struct_size = XLA_FFI_Handler_Register_Args_STRUCT_SIZE;
    args.name = Span(handler.name);
    args.platform = Span(handler.platform);
    args.bundle = {handler.instantiate, handler.prepare, handler.initialize,
                   handler.execute};
    if (XLA_FFI_Error* error = api->XLA_FFI_Handler_Register(&args)) {
      return error;
    }
  }
  return nullptr;
}

}  // namespace define_table_internal
}  // namespace xla_ffi_kit

// A row of the table: a handler on CPUs that has only the stage "execute". You
// may also write a row as an XlaFfiKit_Handler.
#define XLA_FFI_KIT_HANDLER(name, Symbol) \
  {name, "Host", nullptr, nullptr, nullptr, &Symbol, nullptr}

// The same of a handler with a signature, which XLA_FFI_KIT_DEFINE_SIGNATURE or
// KIT_DEFINE_HANDLER defines.
#define XLA_FFI_KIT_HANDLER_WITH_SIGNATURE(name, Symbol) \
  {name, "Host", nullptr, nullptr, nullptr, &Symbol, &Symbol##_signature}

// Defines XlaFfiKit_GetHandlerTable: the library's name, then its handlers.
#define XLA_FFI_KIT_DEFINE_TABLE(library, ...) \
  XLA_FFI_KIT_DEFINE_TABLE_WITH_TYPES(library, nullptr, 0, __VA_ARGS__)

// The same for a library with state. After its name come an array of its types,
// XlaFfiKit_Type, and their number.
#define XLA_FFI_KIT_DEFINE_TABLE_WITH_TYPES(library, types, num_types, ...) \
  extern "C" __attribute__((visibility("default")))                         \
  const XlaFfiKit_HandlerTable*                                             \
  XlaFfiKit_GetHandlerTable() {                                             \
    static const XlaFfiKit_Handler handlers[] = {__VA_ARGS__};              \
    static const XlaFfiKit_HandlerTable table = {                           \
        sizeof(XlaFfiKit_HandlerTable),                                     \
        sizeof(XlaFfiKit_Handler),                                          \
        sizeof(XlaFfiKit_Type),                                             \
        library,                                                            \
        XLA_FFI_API_MAJOR,                                                  \
        XLA_FFI_API_MINOR,                                                  \
        sizeof(handlers) / sizeof(handlers[0]),                             \
        handlers,                                                           \
        num_types,                                                          \
        types,                                                              \
        [](const XLA_FFI_Api* api) {                                        \
          return xla_ffi_kit::define_table_internal::Register(              \
              api, *XlaFfiKit_GetHandlerTable());                           \
        },                                                                  \
        &XlaFfiKit_parallel_for};                                           \
    return &table;                                                          \
  }                                                                         \
  static_assert(true, "a semicolon follows")

#endif  // XLA_FFI_CORE_DEFINE_TABLE_H_
