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
void Find(void* library, const char* name, Function& function,
          std::string& problem) {
  void* found = dlsym(library, name);
  if (found == nullptr && problem.empty()) {
    problem = std::string("libcuda.so.1 has no function ") + name +
              "; update the NVIDIA driver";
  }
  function = reinterpret_cast<Function>(found);
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
  Driver& d = loaded.driver;
  std::string& problem = loaded.problem;
  // cuda.h gives some of them newer names, of the ABI since CUDA 4.
  Find(library, "cuGetErrorName", d.cuGetErrorName, problem);
  Find(library, "cuGetErrorString", d.cuGetErrorString, problem);
  Find(library, "cuCtxGetCurrent", d.cuCtxGetCurrent, problem);
  Find(library, "cuCtxPushCurrent_v2", d.cuCtxPushCurrent, problem);
  Find(library, "cuCtxPopCurrent_v2", d.cuCtxPopCurrent, problem);
  Find(library, "cuCtxGetDevice", d.cuCtxGetDevice, problem);
  Find(library, "cuDeviceGetAttribute", d.cuDeviceGetAttribute, problem);
  Find(library, "cuStreamGetCtx", d.cuStreamGetCtx, problem);
  Find(library, "cuStreamIsCapturing", d.cuStreamIsCapturing, problem);
  Find(library, "cuStreamSynchronize", d.cuStreamSynchronize, problem);
  Find(library, "cuThreadExchangeStreamCaptureMode",
       d.cuThreadExchangeStreamCaptureMode, problem);
  Find(library, "cuModuleLoadData", d.cuModuleLoadData, problem);
  Find(library, "cuModuleUnload", d.cuModuleUnload, problem);
  Find(library, "cuModuleGetFunction", d.cuModuleGetFunction, problem);
  Find(library, "cuFuncGetAttribute", d.cuFuncGetAttribute, problem);
  Find(library, "cuFuncSetAttribute", d.cuFuncSetAttribute, problem);
  Find(library, "cuLaunchKernel", d.cuLaunchKernel, problem);
  std::string none;  // is no problem
  Find(library, "cuCtxGetId", d.cuCtxGetId, none);
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
