// Registers everything in a handler table with an XLA.

#ifndef XLA_FFI_CORE_REGISTER_TABLE_H_
#define XLA_FFI_CORE_REGISTER_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "xla/ffi/api/ffi.h"
#include "xla_ffi/core/handler_table.h"

namespace xla_ffi_kit {
namespace register_table_internal {

// XLA takes any name for a platform, and then never finds the handler.
inline bool IsPlatform(std::string_view name) {
  return name == "Host" || name == "CUDA" || name == "ROCM";
}

// XLA's error if it names `what`, else a new one that does, in place of it.
// The C API can read an error's text but not its code, so a new one is
// INVALID_ARGUMENT, the code XLA refuses registrations with.
inline XLA_FFI_Error* Named(const XLA_FFI_Api* api, XLA_FFI_Error* error,
                            const XlaFfiKit_HandlerTable& table,
                            std::string_view kind, std::string_view what,
                            std::string_view platform) {
  const std::string text = xla::ffi::internal::GetErrorMessage(api, error);
  if (text.find(what) != std::string::npos) return error;
  xla::ffi::internal::DestroyError(api, error);
  std::string message = table.library;
  message.append(": registering ").append(kind).append(" ").append(what);
  message.append(" on platform ").append(platform).append(": ").append(text);
  return xla::ffi::internal::CreateError(
      api, xla::ffi::Error::InvalidArgument(std::move(message)));
}

}  // namespace register_table_internal

// Registers the table's types, which XLA wants first, then its handlers, with
// the XLA that `api` belongs to. Returns null, or the first error, which names
// the handler or type and which the caller owns. What was registered before
// the error stays registered: XLA cannot unregister. Registering a table again
// is no error.
//
// Traits are not passed: XLA reads them from each handler's metadata.
inline XLA_FFI_Error* RegisterHandlerTable(
    const XLA_FFI_Api* api, const XlaFfiKit_HandlerTable& table) {
  using register_table_internal::Named;
  for (size_t i = 0; i < table.num_types; ++i) {
    const XlaFfiKit_Type& type = table.types[i];
    XLA_FFI_Error* error = xla::ffi::Ffi::RegisterTypeId(
        api, type.name, type.type_id, type.type_info);
    if (error != nullptr) {
      return Named(api, error, table, "type", type.name, type.platform);
    }
  }
  for (size_t i = 0; i < table.num_handlers; ++i) {
    const XlaFfiKit_Handler& handler = table.handlers[i];
    if (!register_table_internal::IsPlatform(handler.platform)) {
      return xla::ffi::internal::CreateError(
          api,
          xla::ffi::Error::InvalidArgument(
              std::string(table.library) + ": registering handler " +
              handler.name +
              ": expected platform Host, CUDA or ROCM, as XLA spells them, "
              "got " +
              handler.platform));
    }
    const XLA_FFI_Handler_Bundle bundle = {handler.instantiate, handler.prepare,
                                           handler.initialize, handler.execute};
    XLA_FFI_Error* error = xla::ffi::Ffi::RegisterStaticHandler(
        api, handler.name, handler.platform, bundle);
    if (error != nullptr) {
      return Named(api, error, table, "handler", handler.name,
                   handler.platform);
    }
  }
  return nullptr;
}

}  // namespace xla_ffi_kit

#endif  // XLA_FFI_CORE_REGISTER_TABLE_H_
