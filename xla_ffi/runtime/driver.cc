#include "xla_ffi/runtime/driver.h"

#include <dlfcn.h>

#include <string>

#include "xla/ffi/api/ffi.h"

namespace xla_ffi_kit::launch {
namespace {

namespace ffi = ::xla::ffi;

struct Loaded {
  Driver driver = {};
  std::string problem;
};

template <typename Function>
void Find(void* library, const char* symbol, Function& function,
          std::string& problem) {
  void* const address = dlsym(library, symbol);
  if (address == nullptr && problem.empty()) {
    problem = std::string("libcuda.so.1 has no function ") + symbol +
              "; update the NVIDIA driver";
  }
  function = reinterpret_cast<Function>(address);
}

Loaded Load() {
  Loaded loaded;
  // XLA has loaded it wherever there is a stream to launch on.
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* why = dlerror();
    loaded.problem = std::string("there is no NVIDIA driver: ") +
                     (why != nullptr ? why : "libcuda.so.1 cannot be loaded");
    return loaded;
  }
#define XLA_FFI_KIT_FIND(name, symbol, parameters) \
  Find(library, symbol, loaded.driver.name, loaded.problem);
  XLA_FFI_KIT_DRIVER_FUNCTIONS(XLA_FFI_KIT_FIND)
#undef XLA_FFI_KIT_FIND
  std::string none;  // its absence is no problem
  Find(library, "cuCtxGetId", loaded.driver.cuCtxGetId, none);
  return loaded;
}

}  // namespace

ffi::ErrorOr<const Driver*> GetDriver() {
  static const Loaded& loaded = *new Loaded(Load());
  if (!loaded.problem.empty()) {
    return ffi::Unexpected(
        ffi::Error(ffi::ErrorCode::kFailedPrecondition, loaded.problem));
  }
  return &loaded.driver;
}

std::string Describe(const Driver& driver, Status status) {
  const char* name = nullptr;
  const char* text = nullptr;
  driver.cuGetErrorName(status, &name);
  driver.cuGetErrorString(status, &text);
  return std::string(text != nullptr ? text : "an unknown error") + " (" +
         (name != nullptr ? name : std::to_string(status).c_str()) + ")";
}

}  // namespace xla_ffi_kit::launch
