#include "xla_ffi/runtime/modules.h"

#include <cstdint>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <tuple>
#include <utility>

#include "xla/ffi/api/ffi.h"
#include "xla_ffi/runtime/driver.h"
#include "xla_ffi/runtime/images.h"
#include "xla_ffi/runtime/launch.h"

namespace xla_ffi_kit::launch {
namespace {

namespace ffi = ::xla::ffi;

struct Loaded {
  Function function = nullptr;
  int64_t shared = 0;  // dynamic bytes that it has been allowed
};

// The key of a loaded kernel: context, digest and symbol. A context by its
// number too, where drivers have them (since CUDA 12): another one may come to
// be at the address of one that was destroyed, with all its modules.
using Key = std::tuple<Context, uint64_t, std::string, std::string>;
using View = std::tuple<Context, uint64_t, std::string_view, std::string_view>;

uint64_t NumberOf(const Driver& driver, Context context) {
  // Streams of the legacy default have a context that is not told: null.
  if (driver.cuCtxGetId == nullptr || context == nullptr) return 0;
  unsigned long long number = 0;  // NOLINT(runtime/int): the driver's type
  return driver.cuCtxGetId(context, &number) == kSuccess ? number : 0;
}

struct Modules {
  std::shared_mutex mutex;
  std::map<Key, Loaded, std::less<>> loaded;
};

Modules& All() {
  static Modules& modules = *new Modules;
  return modules;
}

// Until the end of the scope a capture of this thread does not forbid calls.
// The driver takes what is loaded then for no part of the graph.
class Relaxed {
 public:
  explicit Relaxed(const Driver& driver) : driver_(driver) {
    driver_.cuThreadExchangeStreamCaptureMode(&mode_);
  }
  ~Relaxed() { driver_.cuThreadExchangeStreamCaptureMode(&mode_); }
  Relaxed(const Relaxed&) = delete;
  Relaxed& operator=(const Relaxed&) = delete;

 private:
  const Driver& driver_;
  int mode_ = kRelaxed;
};

ffi::Error Failed(const Driver& driver, const char* what, Status status) {
  return {ffi::ErrorCode::kInternal,
          std::string(what) + ": " + Describe(driver, status)};
}

ffi::ErrorOr<Function> LoadFunction(const Driver& driver,
                                    const Kernel& kernel) {
  int device = 0, major = 0, minor = 0;
  Status status = driver.cuCtxGetDevice(&device);
  if (status == kSuccess) {
    status = driver.cuDeviceGetAttribute(&major, kCapabilityMajor, device);
  }
  if (status == kSuccess) {
    status = driver.cuDeviceGetAttribute(&minor, kCapabilityMinor, device);
  }
  if (status != kSuccess) {
    return ffi::Unexpected(Failed(driver, "asking for the GPU", status));
  }
  ffi::ErrorOr<std::string> image = ImageFor(kernel.code, major, minor);
  if (!image.has_value()) return ffi::Unexpected(image.error());
  const Relaxed relaxed(driver);
  Module module = nullptr;
  status = driver.cuModuleLoadData(&module, image->c_str());
  if (status != kSuccess) {
    return ffi::Unexpected(Failed(driver, "loading its code", status));
  }
  Function function = nullptr;
  const std::string symbol(kernel.symbol);
  status = driver.cuModuleGetFunction(&function, module, symbol.c_str());
  if (status != kSuccess) {
    driver.cuModuleUnload(module);
    return ffi::Unexpected(
        Failed(driver, ("finding kernel " + symbol).c_str(), status));
  }
  return function;
}

// Shared memory beyond 48 KB has to be asked for.
ffi::Error AllowShared(const Driver& driver, int64_t wanted, Loaded& loaded) {
  if (wanted <= loaded.shared) return ffi::Error::Success();
  int device = 0, most = 0, fixed = 0;
  driver.cuCtxGetDevice(&device);
  driver.cuDeviceGetAttribute(&most, kMostSharedBytes, device);
  driver.cuFuncGetAttribute(&fixed, kFunctionSharedBytes, loaded.function);
  if (wanted > most - fixed) {
    return {ffi::ErrorCode::kInvalidArgument,
            "shared: expected at most " + std::to_string(most - fixed) +
                " bytes of dynamic shared memory, as this GPU has " +
                std::to_string(most) + " for a block and the kernel declares " +
                std::to_string(fixed) + ", got " + std::to_string(wanted)};
  }
  const Status status = driver.cuFuncSetAttribute(
      loaded.function, kFunctionDynamicSharedBytes, static_cast<int>(wanted));
  if (status != kSuccess) {
    return Failed(driver, "asking for shared memory", status);
  }
  loaded.shared = wanted;
  return ffi::Error::Success();
}

}  // namespace

InContextOf::InContextOf(const Driver& driver, Stream stream)
    : driver_(driver) {
  Context wanted = nullptr;
  status_ = driver.cuCtxGetCurrent(&context_);
  if (status_ == kSuccess && stream != nullptr) {
    status_ = driver.cuStreamGetCtx(stream, &wanted);
  }
  if (status_ != kSuccess || wanted == nullptr || wanted == context_) return;
  status_ = driver.cuCtxPushCurrent(wanted);
  is_pushed_ = status_ == kSuccess;
  context_ = wanted;
}

InContextOf::~InContextOf() {
  Context popped = nullptr;
  if (is_pushed_) driver_.cuCtxPopCurrent(&popped);
}

ffi::ErrorOr<Function> FunctionOf(const Driver& driver, Context context,
                                  const Kernel& kernel) {
  Modules& modules = All();
  const uint64_t number = NumberOf(driver, context);
  const View key(context, number, kernel.digest, kernel.symbol);
  {
    const std::shared_lock<std::shared_mutex> lock(modules.mutex);
    const auto found = modules.loaded.find(key);
    if (found != modules.loaded.end() &&
        kernel.shared <= found->second.shared) {
      return found->second.function;
    }
  }
  const std::unique_lock<std::shared_mutex> lock(modules.mutex);
  auto found = modules.loaded.find(key);
  if (found == modules.loaded.end()) {
    ffi::ErrorOr<Function> function = LoadFunction(driver, kernel);
    if (!function.has_value()) return ffi::Unexpected(function.error());
    Key own(context, number, kernel.digest, kernel.symbol);
    found = modules.loaded.emplace(std::move(own), Loaded{*function}).first;
  }
  ffi::Error error = AllowShared(driver, kernel.shared, found->second);
  if (error.failure()) return ffi::Unexpected(std::move(error));
  return found->second.function;
}

}  // namespace xla_ffi_kit::launch
