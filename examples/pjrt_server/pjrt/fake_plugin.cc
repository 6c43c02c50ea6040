// A PJRT plugin that can do nothing but say so.

#include "xla/pjrt/c/pjrt_c_api.h"

namespace {

PJRT_Error* Initialize(PJRT_Plugin_Initialize_Args*) { return nullptr; }

PJRT_Api MakeApi() {
  PJRT_Api api = {};
  api.struct_size = PJRT_Api_STRUCT_SIZE;
  api.pjrt_api_version.major_version = PJRT_API_MAJOR;
  api.pjrt_api_version.minor_version = PJRT_API_MINOR;
#if defined(FAKE_PLUGIN_NEWER)
  api.pjrt_api_version.major_version = PJRT_API_MAJOR + 1;
#elif defined(FAKE_PLUGIN_OLDER)
  api.pjrt_api_version.minor_version = 3;
#elif defined(FAKE_PLUGIN_WITHOUT_FFI)
  api.PJRT_Plugin_Initialize = Initialize;
#endif
  return api;
}

}  // namespace

extern "C" const PJRT_Api* GetPjrtApi() {
  [[maybe_unused]] static const auto initialize = &Initialize;
  static const PJRT_Api api = MakeApi();
  return &api;
}
