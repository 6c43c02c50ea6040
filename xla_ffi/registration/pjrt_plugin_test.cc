// Registration with a PJRT plugin: what is accepted, what is refused and how.

#include "xla_ffi/registration/pjrt_plugin.h"

#include <dlfcn.h>

#include <cstdlib>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "xla/ffi/api/c_api.h"
#include "xla/ffi/api/ffi.h"
#include "xla/pjrt/c/pjrt_c_api.h"
#include "xla/pjrt/c/pjrt_c_api_ffi_extension.h"
#include "xla_ffi/core/handler_table.h"
#include "xla_ffi/core/register_table.h"
#include "xla_ffi/registration/registry.h"

namespace xla_ffi_kit {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

const PJRT_Api& Plugin() {
  static const PJRT_Api* api = [] {
    void* library = dlopen(std::getenv("PJRT_PLUGIN"), RTLD_NOW | RTLD_LOCAL);
    EXPECT_NE(library, nullptr) << dlerror();
    return reinterpret_cast<const PJRT_Api* (*)()>(
        dlsym(library, "GetPjrtApi"))();
  }();
  return *api;
}

// Answers a metadata call as a handler built with FFI API 0.`minor` would.
template <int minor>
XLA_FFI_Error* HandlerOfVersion(XLA_FFI_CallFrame* frame) {
  auto* extension =
      reinterpret_cast<XLA_FFI_Metadata_Extension*>(frame->extension_start);
  extension->metadata->api_version.major_version = 0;
  extension->metadata->api_version.minor_version = minor;
  return nullptr;
}

// What register_all of the table below registers.
XlaFfiKit_Handler handler;
XlaFfiKit_HandlerTable table;

std::string Register(const PJRT_Api& plugin, const char* name,
                     XLA_FFI_Handler* execute) {
  handler = {name, "Host", nullptr, nullptr, nullptr, execute, nullptr};
  table = *XlaFfiKit_CpuHandlerTable();
  table.library = "register_test";
  table.num_handlers = 1;
  table.handlers = &handler;
  table.register_all = [](const XLA_FFI_Api* api) {
    return RegisterHandlerTable(api, table);
  };
  return RegisterWithPlugin(plugin, table);
}

TEST(RegisterWithPluginTest, TheFfiSaysItsVersion) {
  const XLA_FFI_Api* api = PluginFfiApi(Plugin());
  ASSERT_NE(api, nullptr);
  EXPECT_EQ(api->api_version.major_version, 0);
  EXPECT_EQ(api->api_version.minor_version, 4);
}

TEST(RegisterWithPluginTest, EveryHandlerOfTheKitAndAgain) {
  EXPECT_EQ(RegisterWithPlugin(Plugin(), *XlaFfiKit_CpuHandlerTable()), "");
  EXPECT_EQ(RegisterWithPlugin(Plugin(), *XlaFfiKit_CpuHandlerTable()), "");
}

TEST(RegisterWithPluginTest, HandlerAsOldAsXlaAcceptsOrAsNewAsThePlugin) {
  EXPECT_EQ(Register(Plugin(), "register_test.oldest", &HandlerOfVersion<1>),
            "");
  EXPECT_EQ(Register(Plugin(), "register_test.newest", &HandlerOfVersion<4>),
            "");
}

TEST(RegisterWithPluginTest, HandlerNewerThanThePluginIsRefused) {
  EXPECT_THAT(Register(Plugin(), "register_test.newer", &HandlerOfVersion<5>),
              AllOf(StartsWith("register_test: registering handlers: "),
                    HasSubstr("register_test.newer"), HasSubstr("(0.5)"),
                    HasSubstr("(0.4)")));
}

TEST(RegisterWithPluginTest, TargetTakenByAnotherHandlerIsRefused) {
  EXPECT_EQ(Register(Plugin(), "register_test.taken", &HandlerOfVersion<2>),
            "");
  EXPECT_THAT(Register(Plugin(), "register_test.taken", &HandlerOfVersion<3>),
              AllOf(HasSubstr("register_test.taken"), HasSubstr("uplicate")));
}

constexpr char kNoFfi[] =
    "register_test: registering handlers: the PJRT plugin has no FFI that "
    "handlers could be registered with: take a plugin of XLA's CPU or GPU "
    "runtime, of 2025 or newer";

TEST(RegisterWithPluginTest, PluginWithoutFfi) {
  PJRT_Api plugin = {};
  EXPECT_EQ(Register(plugin, "register_test.target", &HandlerOfVersion<2>),
            kNoFfi);
  // Other extensions are passed over.
  PJRT_Extension_Base other = {};
  other.type = PJRT_Extension_Type_Profiler;
  plugin.extension_start = &other;
  EXPECT_EQ(Register(plugin, "register_test.target", &HandlerOfVersion<2>),
            kNoFfi);
}

TEST(RegisterWithPluginTest, PluginThatAsksForNoMetadata) {
  PJRT_FFI_Extension ffi = {};
  ffi.base.type = PJRT_Extension_Type_FFI;
  ffi.register_handler = [](PJRT_FFI_Register_Handler_Args*) {
    return static_cast<PJRT_Error*>(nullptr);
  };
  PJRT_Api plugin = {};
  plugin.extension_start = &ffi.base;
  // This call does not return the API of the plugin before.
  EXPECT_NE(PluginFfiApi(Plugin()), nullptr);
  EXPECT_EQ(Register(plugin, "register_test.target", &HandlerOfVersion<2>),
            kNoFfi);
}

}  // namespace
}  // namespace xla_ffi_kit
