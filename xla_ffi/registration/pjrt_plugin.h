// Registers handlers with a PJRT plugin, from programs that link no XLA.
//
// A plugin is a shared library that exports `GetPjrtApi` and has an XLA of its
// own inside. Its FFI extension registers a handler's execute stage alone and
// discards XLA's errors. But XLA asks a handler that it registers for its
// metadata, and shows it the C API of its FFI: through that, every stage and
// type is registered, and every error is returned.

#ifndef XLA_FFI_REGISTRATION_PJRT_PLUGIN_H_
#define XLA_FFI_REGISTRATION_PJRT_PLUGIN_H_

#include <cstddef>
#include <string>

#include "xla/ffi/api/c_api.h"
#include "xla/pjrt/c/pjrt_c_api.h"
#include "xla/pjrt/c/pjrt_c_api_ffi_extension.h"
#include "xla_ffi/core/c_api_names.h"
#include "xla_ffi/core/handler_table.h"

namespace xla_ffi_kit {
namespace pjrt_internal {

// The API that XLA passed to the last WhoCalls() of this thread, null before.
inline const XLA_FFI_Api*& Caller() {
  thread_local const XLA_FFI_Api* caller = nullptr;
  return caller;
}

// A handler of FFI API 0.1, which every XLA accepts, that notes who calls it.
inline XLA_FFI_Error* WhoCalls(XLA_FFI_CallFrame* frame) {
  Caller() = frame->api;
  XLA_FFI_InternalExtension* extension = frame->extension_start;
  if (extension != nullptr && extension->type == XLA_FFI_Extension_Metadata) {
    auto* metadata =
        reinterpret_cast<XLA_FFI_Metadata_Extension*>(extension)->metadata;
    metadata->api_version.major_version = 0;
    metadata->api_version.minor_version = 1;
  }
  return nullptr;
}

inline const PJRT_FFI_Extension* FfiExtension(const PJRT_Api& plugin) {
  const PJRT_Extension_Base* extension = plugin.extension_start;
  while (extension != nullptr && extension->type != PJRT_Extension_Type_FFI) {
    extension = extension->next;
  }
  return reinterpret_cast<const PJRT_FFI_Extension*>(extension);
}

inline std::string TakeText(const XLA_FFI_Api* api, XLA_FFI_Error* error) {
  XLA_FFI_Error_GetDetails_Args get = {};
  get.struct_size = XLA_FFI_Error_GetDetails_Args_STRUCT_SIZE;
  get.error = error;
  api->XLA_FFI_Error_GetDetails(&get);
  std::string text = get.message == nullptr ? "an error without a text"  //
                                            : get.message;
  XLA_FFI_Error_Destroy_Args destroy = {};
  destroy.struct_size = XLA_FFI_Error_Destroy_Args_STRUCT_SIZE;
  destroy.error = error;
  api->XLA_FFI_Error_Destroy(&destroy);
  return text;
}

}  // namespace pjrt_internal

// The C API of the FFI inside a plugin, which lives as long as the plugin is
// loaded; its `api_version` says which handlers the plugin accepts. Null if the
// plugin has no FFI, as plugins that are not built on XLA's CPU and GPU
// runtimes, or one that is older than FFI API 0.1. Registers the target
// "xla_ffi_kit.who_calls" with the plugin.
inline const XLA_FFI_Api* PluginFfiApi(const PJRT_Api& plugin) {
  const PJRT_FFI_Extension* extension = pjrt_internal::FfiExtension(plugin);
  if (extension == nullptr || extension->register_handler == nullptr) {
    return nullptr;
  }
  static constexpr char kTarget[] = "xla_ffi_kit.who_calls";
  static constexpr char kPlatform[] = "Host";
  PJRT_FFI_Register_Handler_Args args = {};
  args.struct_size = PJRT_FFI_Register_Handler_Args_STRUCT_SIZE;
  args.target_name = kTarget;
  args.target_name_size = sizeof kTarget - 1;
  args.handler = reinterpret_cast<void*>(&pjrt_internal::WhoCalls);
  args.platform_name = kPlatform;
  args.platform_name_size = sizeof kPlatform - 1;
  pjrt_internal::Caller() = nullptr;
  PJRT_Error* error = extension->register_handler(&args);
  if (error != nullptr) {
    PJRT_Error_Destroy_Args destroy = {};
    destroy.struct_size = PJRT_Error_Destroy_Args_STRUCT_SIZE;
    destroy.error = error;
    plugin.PJRT_Error_Destroy(&destroy);
  }
  return pjrt_internal::Caller();
}

// Registers a library's types and handlers with the plugin. Returns "", or one
// sentence that names the library and what could not be registered: a handler
// built with a newer FFI than the plugin's, a target that another library has
// taken, or a plugin without an FFI. What was registered before the error stays
// registered. Registering a table again is no error.
inline std::string RegisterWithPlugin(const PJRT_Api& plugin,
                                      const XlaFfiKit_HandlerTable& table) {
  const XLA_FFI_Api* api = PluginFfiApi(plugin);
  if (api == nullptr) {
    return std::string(table.library) +
           ": registering handlers: the PJRT plugin has no FFI that handlers "
           "could be registered with: take a plugin of XLA's CPU or GPU "
           "runtime, of 2025 or newer";
  }
  XLA_FFI_Error* error = table.register_all(api);
  if (error == nullptr) return "";
  const std::string text = pjrt_internal::TakeText(api, error);
  return text.find(table.library) == 0
             ? text
             : std::string(table.library) + ": registering handlers: " + text;
}

}  // namespace xla_ffi_kit

#endif  // XLA_FFI_REGISTRATION_PJRT_PLUGIN_H_
