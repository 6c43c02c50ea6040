// Registration with a real XLA: what is accepted, what is refused and how.

#include "xla_ffi/registration/registry.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "xla/ffi/api/c_api.h"
#include "xla_ffi/core/c_api_names.h"
#include "xla_ffi/core/register_table.h"

namespace xla_ffi_kit {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// The text of `error`, which is freed; "" for none.
std::string TakeMessage(XLA_FFI_Error* error) {
  if (error == nullptr) return "";
  const XLA_FFI_Api* api = XLA_FFI_GetApi();
  XLA_FFI_Error_GetDetails_Args get = {};
  get.struct_size = XLA_FFI_Error_GetDetails_Args_STRUCT_SIZE;
  get.error = error;
  api->XLA_FFI_Error_GetDetails(&get);
  const std::string message = get.message;
  XLA_FFI_Error_Destroy_Args destroy = {};
  destroy.struct_size = XLA_FFI_Error_Destroy_Args_STRUCT_SIZE;
  destroy.error = error;
  api->XLA_FFI_Error_Destroy(&destroy);
  return message;
}

// The error of registering a table with one handler.
std::string Register(const char* name, XLA_FFI_Handler* execute,
                     const char* platform = "Host") {
  const XlaFfiKit_Handler handler = {name,    platform, nullptr, nullptr,
                                     nullptr, execute,  nullptr};
  XlaFfiKit_HandlerTable table = *XlaFfiKit_CpuHandlerTable();
  table.library = "registry_test";
  table.num_handlers = 1;
  table.handlers = &handler;
  return TakeMessage(RegisterHandlerTable(XLA_FFI_GetApi(), table));
}

// Answers a metadata call as a handler built with FFI API 0.`minor` would.
template <int minor>
XLA_FFI_Error* HandlerOfVersion(XLA_FFI_CallFrame* frame) {
  XLA_FFI_Extension_Base* extension = frame->extension_start;
  if (extension == nullptr || extension->type != XLA_FFI_Extension_Metadata) {
    return nullptr;
  }
  auto* metadata =
      reinterpret_cast<XLA_FFI_Metadata_Extension*>(extension)->metadata;
  metadata->api_version.major_version = 0;
  metadata->api_version.minor_version = minor;
  return nullptr;
}

TEST(RegistryTest, TableListsTheHandlers) {
  const XlaFfiKit_HandlerTable* table = XlaFfiKit_CpuHandlerTable();
  std::string names;
  for (size_t i = 0; i < table->num_handlers; ++i) {
    EXPECT_STREQ(table->handlers[i].platform, "Host");
    EXPECT_NE(table->handlers[i].execute, nullptr);
    names += std::string(table->handlers[i].name) + " ";
  }
  EXPECT_THAT(names, AllOf(HasSubstr("xla_ffi_kit.rms_norm "),
                           HasSubstr("xla_ffi_kit.rms_norm_bwd "),
                           HasSubstr("xla_ffi_kit.rms_norm_weight_bwd "),
                           HasSubstr("xla_ffi_kit.modular_add ")));
}

TEST(RegistryTest, RegisteringAgainIsNoError) {
  // Once at start-up, by register_cpu, and twice here.
  EXPECT_EQ(TakeMessage(XlaFfiKit_RegisterCpuHandlers(XLA_FFI_GetApi())), "");
  EXPECT_EQ(TakeMessage(XlaFfiKit_RegisterCpuHandlers(XLA_FFI_GetApi())), "");
}

TEST(RegistryTest, TargetTakenByAnotherHandlerIsRefused) {
  EXPECT_THAT(Register("xla_ffi_kit.rms_norm", &HandlerOfVersion<2>),
              AllOf(HasSubstr("xla_ffi_kit.rms_norm"),
                    HasSubstr("Duplicate FFI handler registration")));
}

TEST(RegistryTest, HandlerNewerThanXlaIsRefused) {
  EXPECT_THAT(Register("registry_test.newer", &HandlerOfVersion<99>),
              AllOf(HasSubstr("registry_test.newer"), HasSubstr("99")));
}

TEST(RegistryTest, PlatformThatXlaHasNotIsRefused) {
  EXPECT_EQ(Register("registry_test.platform", &HandlerOfVersion<2>, "Hots"),
            "registry_test: registering handler registry_test.platform: "
            "expected platform Host, CUDA or ROCM, as XLA spells them, got "
            "Hots");
}

TEST(RegistryTest, HandlerOfTheFloorVersionIsAccepted) {
  EXPECT_EQ(Register("registry_test.floor", &HandlerOfVersion<2>), "");
}

}  // namespace
}  // namespace xla_ffi_kit
