#include "xla_ffi/runtime/launch.h"

#include <cstdint>
#include <cstdlib>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "xla/ffi/api/ffi.h"
#include "xla_ffi/core/batch_shape.h"
#include "xla_ffi/core/checks.h"
#include "xla_ffi/runtime/driver.h"
#include "xla_ffi/runtime/images.h"

namespace xla_ffi_kit::launch {
namespace {

namespace ffi = ::xla::ffi;

constexpr int64_t kMostBlocks = (int64_t{1} << 31) - 1;

ffi::Error Invalid(std::string why) {
  return {ffi::ErrorCode::kInvalidArgument, std::move(why)};
}

// The error, beginning with the operation's name.
ffi::Error Named(const Kernel& kernel, const ffi::Error& error) {
  if (error.success()) return error;
  std::string message(kernel.name);
  return {*error.errc(), message.append(": ").append(error.message())};
}

// --- The modules that are loaded, for each context ---------------------------

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
ffi::Error AllowShared(const Driver& driver, int64_t bytes, Loaded& loaded) {
  if (bytes <= loaded.shared) return ffi::Error::Success();
  int device = 0, most = 0, fixed = 0;
  driver.cuCtxGetDevice(&device);
  driver.cuDeviceGetAttribute(&most, kMostSharedBytes, device);
  driver.cuFuncGetAttribute(&fixed, kFunctionSharedBytes, loaded.function);
  if (bytes > most - fixed) {
    return {ffi::ErrorCode::kInvalidArgument,
            "shared: expected at most " + std::to_string(most - fixed) +
                " bytes of dynamic shared memory, as this GPU has " +
                std::to_string(most) + " for a block and the kernel declares " +
                std::to_string(fixed) + ", got " + std::to_string(bytes)};
  }
  const Status status = driver.cuFuncSetAttribute(
      loaded.function, kFunctionDynamicSharedBytes, static_cast<int>(bytes));
  if (status != kSuccess) {
    return Failed(driver, "asking for shared memory", status);
  }
  loaded.shared = bytes;
  return ffi::Error::Success();
}

// Makes the context of a stream the thread's current one, until the end of the
// scope.
class InContextOf {
 public:
  InContextOf(const Driver& driver, Stream stream) : driver_(driver) {
    Context of_stream = nullptr;
    status_ = driver.cuCtxGetCurrent(&context_);
    if (status_ == kSuccess && stream != nullptr) {
      status_ = driver.cuStreamGetCtx(stream, &of_stream);
    }
    if (status_ != kSuccess || of_stream == nullptr || of_stream == context_) {
      return;
    }
    status_ = driver.cuCtxPushCurrent(of_stream);
    is_pushed_ = status_ == kSuccess;
    context_ = of_stream;
  }
  ~InContextOf() {
    Context popped = nullptr;
    if (is_pushed_) driver_.cuCtxPopCurrent(&popped);
  }
  InContextOf(const InContextOf&) = delete;
  InContextOf& operator=(const InContextOf&) = delete;

  Context context() const { return context_; }
  Status status() const { return status_; }

 private:
  const Driver& driver_;
  Context context_ = nullptr;
  Status status_ = kSuccess;
  bool is_pushed_ = false;
};

// The kernel in the current context, which is `context`; loaded if need be, and
// then for as long as the process lives.
ffi::ErrorOr<Function> FunctionOf(const Driver& driver, Context context,
                                  const Kernel& kernel) {
  Modules& modules = All();
  const uint64_t number = NumberOf(driver, context);
  const View key(context, number, kernel.digest, kernel.symbol);
  {
    const std::shared_lock<std::shared_mutex> lock(modules.mutex);
    const auto entry = modules.loaded.find(key);
    if (entry != modules.loaded.end() &&
        kernel.shared <= entry->second.shared) {
      return entry->second.function;
    }
  }
  const std::unique_lock<std::shared_mutex> lock(modules.mutex);
  auto entry = modules.loaded.find(key);
  if (entry == modules.loaded.end()) {
    ffi::ErrorOr<Function> function = LoadFunction(driver, kernel);
    if (!function.has_value()) return ffi::Unexpected(function.error());
    entry = modules.loaded
                .emplace(Key(context, number, kernel.digest, kernel.symbol),
                         Loaded{*function})
                .first;
  }
  ffi::Error error = AllowShared(driver, kernel.shared, entry->second);
  if (error.failure()) return ffi::Unexpected(std::move(error));
  return entry->second.function;
}

// --- The arguments of a launch
// ------------------------------------------------

Array ArrayOf(const ffi::AnyBuffer& buffer) {
  const auto dims = buffer.dimensions();
  Array array = {};
  array.data = buffer.untyped_data();
  array.size = Product(dims);
  const auto rank = static_cast<int64_t>(dims.size());
  const int64_t merged = rank > kMostAxes ? rank - kMostAxes : 0;
  array.rank = rank - merged;
  for (int64_t& size : array.dims) size = 1;
  for (int64_t i = merged; i < rank; ++i) array.dims[i - merged] = dims[i];
  if (merged > 0) {
    array.dims[0] = Product(dims.first(static_cast<size_t>(merged + 1)));
  }
  return array;
}

// The arguments of one launch, which it takes by their addresses.
struct Arguments {
  std::vector<Array> arrays;
  int64_t items = 0;
  std::vector<void*> pointers;
};

ffi::Error CollectArrays(const Kernel& kernel, ffi::RemainingArgs operands,
                         ffi::RemainingRets results, Arguments& arguments) {
  arguments.arrays.reserve(operands.size() + results.size());
  for (size_t i = 0; i < operands.size(); ++i) {
    auto buffer = operands.get<ffi::AnyBuffer>(i);
    if (!buffer.has_value()) return buffer.error();
    arguments.arrays.push_back(ArrayOf(*buffer));
  }
  for (size_t i = 0; i < results.size(); ++i) {
    auto buffer = results.get<ffi::AnyBuffer>(i);
    if (!buffer.has_value()) return buffer.error();
    arguments.arrays.push_back(ArrayOf(**buffer));
  }
  if (kernel.items.size() == 0) return ffi::Error::Success();
  const auto& items = kernel.items;
  const auto count = static_cast<int64_t>(arguments.arrays.size());
  if (items.size() != 3 || items[0] < 0 || items[0] >= count || items[2] < 1) {
    return Invalid("items: expected a buffer, axes and items of a block");
  }
  const Array& array = arguments.arrays[static_cast<size_t>(items[0])];
  if (items[1] < 0 || items[1] > array.rank) {
    return Invalid("items: expected at least " + std::to_string(items[1]) +
                   " axes, got " + std::to_string(array.rank));
  }
  arguments.items =
      Product({array.dims, static_cast<size_t>(array.rank - items[1])});
  for (Array& each : arguments.arrays) {
    each.size_per_item = arguments.items > 0 ? each.size / arguments.items : 0;
  }
  return ffi::Error::Success();
}

ffi::Error CollectPointers(const Kernel& kernel, Arguments& arguments) {
  const auto constants = static_cast<int64_t>(8 * kernel.constants.size());
  const auto count = static_cast<int64_t>(arguments.arrays.size());
  for (const int64_t parameter : kernel.parameters) {
    const int64_t offset = kFirstConstant - parameter;
    if (parameter >= 0 && parameter < count) {
      arguments.pointers.push_back(
          &arguments.arrays[static_cast<size_t>(parameter)]);
    } else if (parameter == kNumberOfItems) {
      arguments.pointers.push_back(&arguments.items);
    } else if (offset >= 0 && offset < constants) {
      // The driver only reads it.
      const auto* bytes =
          reinterpret_cast<const char*>(kernel.constants.begin());
      arguments.pointers.push_back(const_cast<char*>(bytes + offset));
    } else {
      return Invalid("parameters: expected buffers below " +
                     std::to_string(count) + " and constants below " +
                     std::to_string(constants) + " bytes, got " +
                     std::to_string(parameter));
    }
  }
  return ffi::Error::Success();
}

// --- The launch
// ---------------------------------------------------------------

// "1": each launch is awaited, so that an error names its operation. Read when
// the library is loaded: see xla_ffi/core/environment.h.
constexpr char kSyncVariable[] = "XLA_FFI_KIT_CUDA_SYNC";

bool IsOne(const char* value) {
  return value != nullptr && std::string_view(value) == "1";
}

const bool kIsSynchronous = IsOne(std::getenv(kSyncVariable));

std::string Text(const ffi::Span<const int64_t>& sizes, int64_t first) {
  return "(" + std::to_string(first) + ", " + std::to_string(sizes[1]) + ", " +
         std::to_string(sizes[2]) + ")";
}

ffi::Error LaunchOn(const Driver& driver, Function function,
                    const Kernel& kernel, Stream stream, Arguments& arguments) {
  int64_t blocks = kernel.grid[0];
  if (kernel.items.size() != 0) {
    const int64_t of_block = kernel.items[2];
    blocks = arguments.items / of_block + (arguments.items % of_block != 0);
  }
  for (const int64_t size :
       {blocks, kernel.grid[1], kernel.grid[2], kernel.block[0],
        kernel.block[1], kernel.block[2]}) {
    if (size == 0) return ffi::Error::Success();  // nothing to do
    if (size < 0 || size > kMostBlocks) {
      return Invalid(
          "grid, block: expected 0 to 2^31 - 1 along each axis, "
          "got " +
          Text(kernel.grid, blocks) + " and " +
          Text(kernel.block, kernel.block[0]));
    }
  }
  const auto as_unsigned = [](int64_t n) { return static_cast<unsigned>(n); };
  Status status = driver.cuLaunchKernel(
      function, as_unsigned(blocks), as_unsigned(kernel.grid[1]),
      as_unsigned(kernel.grid[2]), as_unsigned(kernel.block[0]),
      as_unsigned(kernel.block[1]), as_unsigned(kernel.block[2]),
      as_unsigned(kernel.shared), stream, arguments.pointers.data(), nullptr);
  if (status != kSuccess) {
    return {ffi::ErrorCode::kInternal,
            "launching grid " + Text(kernel.grid, blocks) + " of blocks " +
                Text(kernel.block, kernel.block[0]) + " with " +
                std::to_string(kernel.shared) +
                " bytes of shared memory: " + Describe(driver, status)};
  }
  if (!kIsSynchronous) return ffi::Error::Success();
  int capture = kNotCaptured;
  driver.cuStreamIsCapturing(stream, &capture);
  if (capture != kNotCaptured) return ffi::Error::Success();
  status = driver.cuStreamSynchronize(stream);
  if (status == kSuccess) return ffi::Error::Success();
  return {ffi::ErrorCode::kInternal,
          "the kernel failed: " + Describe(driver, status)};
}

ffi::Error CheckKernel(const Kernel& kernel) {
  if (kernel.grid.size() != 3 || kernel.block.size() != 3) {
    return Invalid("grid, block: expected 3 sizes each, got " +
                   std::to_string(kernel.grid.size()) + " and " +
                   std::to_string(kernel.block.size()));
  }
  if (kernel.shared < 0 || kernel.shared > (int64_t{1} << 30)) {
    return Invalid("shared: expected a number of bytes, got " +
                   std::to_string(kernel.shared));
  }
  return ffi::Error::Success();
}

ffi::Error Run(const Kernel& kernel, Stream stream,
               const ffi::RemainingArgs* operands,
               const ffi::RemainingRets* results) {
  XLA_FFI_KIT_RETURN_IF_ERROR(CheckKernel(kernel));
  const ffi::ErrorOr<const Driver*> driver = GetDriver();
  if (!driver.has_value()) return driver.error();
  const InContextOf in_context(**driver, stream);
  if (in_context.status() != kSuccess) {
    return {ffi::ErrorCode::kInternal,
            "asking for the stream's context: " +
                Describe(**driver, in_context.status())};
  }
  const ffi::ErrorOr<Function> function =
      FunctionOf(**driver, in_context.context(), kernel);
  if (!function.has_value()) return function.error();
  if (operands == nullptr) return ffi::Error::Success();
  Arguments arguments;
  XLA_FFI_KIT_RETURN_IF_ERROR(
      CollectArrays(kernel, *operands, *results, arguments));
  XLA_FFI_KIT_RETURN_IF_ERROR(CollectPointers(kernel, arguments));
  return LaunchOn(**driver, *function, kernel, stream, arguments);
}

}  // namespace

ffi::Error Load(Stream stream, const Kernel& kernel) {
  return Named(kernel, Run(kernel, stream, nullptr, nullptr));
}

ffi::Error Launch(Stream stream, ffi::RemainingArgs operands,
                  ffi::RemainingRets results, const Kernel& kernel) {
  return Named(kernel, Run(kernel, stream, &operands, &results));
}

}  // namespace xla_ffi_kit::launch
