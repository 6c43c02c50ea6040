// The functions of the CUDA driver that launches call. A module is the path of
// a shared library; for a kernel it has a C function of the kernel's name with
// "_emulated", which takes the addresses of the kernel's arguments, and runs in
// the emulator.

#include "xla_ffi/testing/cuda/driver/fake_driver.h"

#include <dlfcn.h>

#include <cstdint>
#include <mutex>
#include <string>

#include "xla_ffi/testing/cuda/emulator.h"

namespace xla_ffi_kit::testing {
namespace {

constexpr int kInvalidImage = 200;
constexpr int kNotFound = 500;
constexpr int kLaunchFailed = 719;
constexpr int kStreamCaptureUnsupported = 900;
constexpr int kRelaxed = 2;

std::recursive_mutex mutex;

FakeDriver& State() {
  static FakeDriver& state = *new FakeDriver;
  return state;
}

// Notes a call; the status that it shall fail with, or 0.
int Call(const std::string& function, const std::string& about = "") {
  // Kernels start on several of XLA's threads at once.
  const std::lock_guard<std::recursive_mutex> lock(mutex);
  State().calls.push_back(about.empty() ? function : function + " " + about);
  const auto failure = State().failures.find(function);
  return failure == State().failures.end() ? 0 : failure->second;
}

}  // namespace

extern "C" {

FakeDriver* XlaFfiKitFakeDriver() { return &State(); }
// How many kernels have run, for Python.
int64_t XlaFfiKitFakeDriverLaunches() {
  const std::lock_guard<std::recursive_mutex> lock(mutex);
  return static_cast<int64_t>(Launches().size());
}
void XlaFfiKitFakeDriverRunBackwards(bool is_backwards) {
  Device().is_backwards = is_backwards;
}

int cuGetErrorName(int status, const char** name) {
  *name = status == 1     ? "CUDA_ERROR_INVALID_VALUE"
          : status == 719 ? "CUDA_ERROR_LAUNCH_FAILED"
                          : "CUDA_ERROR_OF_THE_TEST";
  return 0;
}
int cuGetErrorString(int status, const char** text) {
  *text = status == 1 ? "invalid argument" : "an error of the test";
  return 0;
}

int cuCtxGetCurrent(void** context) {
  *context = State().current;
  return 0;
}
int cuCtxPushCurrent_v2(void* context) {
  if (int status = Call("cuCtxPushCurrent")) return status;
  State().current = context;
  return 0;
}
int cuCtxPopCurrent_v2(void** context) {
  *context = State().current;
  State().current = &State().major;
  return Call("cuCtxPopCurrent");
}
int cuCtxGetId(void* context, unsigned long long* number) {
  *number = State().numbers[context];
  return Call("cuCtxGetId");
}
int cuCtxGetDevice(int* device) {
  *device = 0;
  return 0;
}
int cuDeviceGetAttribute(int* value, int attribute, int /*device*/) {
  *value = attribute == 75   ? State().major
           : attribute == 76 ? State().minor
                             : static_cast<int>(Device().max_shared_bytes);
  return 0;
}
int cuStreamGetCtx(void* /*stream*/, void** context) {
  *context =
      State().of_streams != nullptr ? State().of_streams : State().current;
  return Call("cuStreamGetCtx");
}
int cuStreamIsCapturing(void* /*stream*/, int* status) {
  *status = State().is_capturing ? 1 : 0;
  return 0;
}
int cuStreamSynchronize(void* /*stream*/) {
  return Call("cuStreamSynchronize");
}
int cuThreadExchangeStreamCaptureMode(int* mode) {
  const int before = State().capture_mode;
  State().capture_mode = *mode;
  *mode = before;
  return 0;
}

int cuModuleLoadData(void** module, const void* image) {
  const std::lock_guard<std::recursive_mutex> lock(mutex);
  const std::string path = static_cast<const char*>(image);
  if (int status = Call("cuModuleLoadData", path)) return status;
  if (State().is_capturing && State().capture_mode != kRelaxed) {
    return kStreamCaptureUnsupported;
  }
  *module = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  return *module == nullptr ? kInvalidImage : 0;
}
int cuModuleUnload(void* /*module*/) { return Call("cuModuleUnload"); }
int cuModuleGetFunction(void** function, void* module, const char* name) {
  if (int status = Call("cuModuleGetFunction", name)) return status;
  *function = dlsym(module, (std::string(name) + "_emulated").c_str());
  return *function == nullptr ? kNotFound : 0;
}
int cuFuncGetAttribute(int* value, int /*attribute*/, void* /*function*/) {
  *value = static_cast<int>(kOtherSharedBytes);
  return 0;
}
int cuFuncSetAttribute(void* function, int /*attribute*/, int value) {
  const std::lock_guard<std::recursive_mutex> lock(mutex);
  if (int status = Call("cuFuncSetAttribute", std::to_string(value))) {
    return status;
  }
  LimitsOf(function).shared_bytes = value;
  return 0;
}

int cuLaunchKernel(void* function, unsigned grid_x, unsigned grid_y,
                   unsigned grid_z, unsigned block_x, unsigned block_y,
                   unsigned block_z, unsigned shared, void* /*stream*/,
                   void** parameters, void** /*extra*/) {
  const std::lock_guard<std::recursive_mutex> lock(mutex);
  std::string about;
  for (const unsigned n :
       {grid_x, grid_y, grid_z, block_x, block_y, block_z, shared}) {
    about += (about.empty() ? "" : " ") + std::to_string(n);
  }
  if (int status = Call("cuLaunchKernel", about)) return status;
  // The emulator knows one dimension; all other blocks are for nobody.
  Grid grid;
  grid.blocks = grid_x;
  grid.threads = block_x;
  grid.shared_bytes = shared;
  auto* kernel = reinterpret_cast<void (*)(void**)>(function);
  const bool is_done = RunGrid(grid, function, [&] { kernel(parameters); });
  return is_done ? 0 : kLaunchFailed;
}

}  // extern "C"

}  // namespace xla_ffi_kit::testing
