#include "examples/pjrt_server/pjrt/plugin.h"

#include <dlfcn.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "examples/pjrt_server/pjrt/array.h"
#include "xla/pjrt/c/pjrt_c_api.h"
#include "xla_ffi/core/handler_table.h"
#include "xla_ffi/pjrt/register.h"

namespace xla_ffi_kit::pjrt {
namespace {

// A CompileOptionsProto of one replica and one partition: its field 3,
// executable_build_options, with fields 4 and 5, each 1.
constexpr char kCompileOptions[] = {0x1a, 4, 0x20, 1, 0x28, 1};

// The oldest PJRT whose structs have what is used here: that of January 2025.
constexpr int kOldestMinor = 60;

template <typename Args>
Args Make(size_t size) {
  Args args = {};
  args.struct_size = size;
  return args;
}
// Arguments of a function of the C API, all zero but for their size.
#define PJRT_ARGS(name) Make<name##_Args>(name##_Args_STRUCT_SIZE)

// As XLA spells it.
std::string CodeName(PJRT_Error_Code code) {
  switch (code) {
    case PJRT_Error_Code_INVALID_ARGUMENT:
      return "INVALID_ARGUMENT";
    case PJRT_Error_Code_NOT_FOUND:
      return "NOT_FOUND";
    case PJRT_Error_Code_RESOURCE_EXHAUSTED:
      return "RESOURCE_EXHAUSTED";
    case PJRT_Error_Code_FAILED_PRECONDITION:
      return "FAILED_PRECONDITION";
    case PJRT_Error_Code_UNIMPLEMENTED:
      return "UNIMPLEMENTED";
    case PJRT_Error_Code_INTERNAL:
      return "INTERNAL";
    default:
      return "error " + std::to_string(code);
  }
}

void Check(const PJRT_Api* api, PJRT_Error* error, const std::string& what) {
  if (error == nullptr) return;
  auto get = PJRT_ARGS(PJRT_Error_Message);
  get.error = error;
  api->PJRT_Error_Message(&get);
  std::string text(get.message, get.message_size);
  auto code = PJRT_ARGS(PJRT_Error_GetCode);
  code.error = error;
  if (api->PJRT_Error_GetCode(&code) == nullptr) {
    text = CodeName(code.code) + ": " + text;
  }
  auto destroy = PJRT_ARGS(PJRT_Error_Destroy);
  destroy.error = error;
  api->PJRT_Error_Destroy(&destroy);
  for (char& c : text) {
    if (c == '\n' || c == '\r') c = ' ';
  }
  throw Error(what + ": " + text);
}

// Waits for an event and frees it.
void Await(const PJRT_Api* api, PJRT_Event* event, const std::string& what) {
  auto await = PJRT_ARGS(PJRT_Event_Await);
  await.event = event;
  PJRT_Error* error = api->PJRT_Event_Await(&await);
  auto destroy = PJRT_ARGS(PJRT_Event_Destroy);
  destroy.event = event;
  api->PJRT_Event_Destroy(&destroy);
  Check(api, error, what);
}

// Buffers on the device, freed with this.
struct Buffers {
  explicit Buffers(const PJRT_Api* api) : api(api) {}
  Buffers(const Buffers&) = delete;
  ~Buffers() {
    for (PJRT_Buffer* buffer : list) {
      if (buffer == nullptr) continue;
      auto args = PJRT_ARGS(PJRT_Buffer_Destroy);
      args.buffer = buffer;
      api->PJRT_Buffer_Destroy(&args);
    }
  }
  const PJRT_Api* api;
  std::vector<PJRT_Buffer*> list;
};

// Whether the plugin reads what the array has, and no more.
void CheckSize(const Array& array, const std::string& what) {
  const Shape& shape = array.shape;
  for (const int64_t dim : shape.dims) {
    if (dim < 0) {
      throw Error(what + ": expected sizes of 0 or more, got " + shape.Text());
    }
  }
  const auto bytes = static_cast<size_t>(shape.Bytes());
  if (array.bytes.size() != bytes) {
    throw Error(what + ": expected " + std::to_string(bytes) + " bytes for " +
                shape.Text() + ", got " + std::to_string(array.bytes.size()));
  }
}

Array ToHost(const PJRT_Api* api, PJRT_Buffer* buffer) {
  auto type = PJRT_ARGS(PJRT_Buffer_ElementType);
  type.buffer = buffer;
  Check(api, api->PJRT_Buffer_ElementType(&type), "reading a result");
  auto dims = PJRT_ARGS(PJRT_Buffer_Dimensions);
  dims.buffer = buffer;
  Check(api, api->PJRT_Buffer_Dimensions(&dims), "reading a result");
  Array array = {{nullptr, {dims.dims, dims.dims + dims.num_dims}}, ""};
  for (const Dtype& dtype : kDtypes) {
    if (dtype.type == type.type) array.shape.dtype = &dtype;
  }
  if (array.shape.dtype == nullptr) {
    throw Error("a result has PJRT's type " + std::to_string(type.type) +
                ", which is not served");
  }
  array.bytes.resize(static_cast<size_t>(array.shape.Bytes()));
  if (array.bytes.empty()) return array;  // null would ask for the size
  // Row by row, whatever the layout on the device is.
  std::vector<int64_t> minor_to_major;
  for (size_t i = dims.num_dims; i > 0; --i) {
    minor_to_major.push_back(static_cast<int64_t>(i - 1));
  }
  PJRT_Buffer_MemoryLayout layout = {};
  layout.struct_size = PJRT_Buffer_MemoryLayout_STRUCT_SIZE;
  layout.type = PJRT_Buffer_MemoryLayout_Type_Tiled;
  layout.tiled.struct_size = PJRT_Buffer_MemoryLayout_Tiled_STRUCT_SIZE;
  layout.tiled.minor_to_major = minor_to_major.data();
  layout.tiled.minor_to_major_size = minor_to_major.size();
  auto copy = PJRT_ARGS(PJRT_Buffer_ToHostBuffer);
  copy.src = buffer;
  copy.host_layout = &layout;
  copy.dst = array.bytes.data();
  copy.dst_size = array.bytes.size();
  Check(api, api->PJRT_Buffer_ToHostBuffer(&copy), "running the program");
  // A handler's error arrives here too.
  Await(api, copy.event, "running the program");
  return array;
}

}  // namespace

Plugin::Plugin(const std::string& path) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    throw Error(std::string("loading the PJRT plugin: ") + dlerror());
  }
  using GetApi = const PJRT_Api*();
  auto* get_api = reinterpret_cast<GetApi*>(dlsym(library, "GetPjrtApi"));
  if (get_api == nullptr) {
    throw Error("loading the PJRT plugin: " + path +
                " exports no GetPjrtApi, so it is no PJRT plugin");
  }
  api_ = get_api();
  const PJRT_Api_Version& version = api_->pjrt_api_version;
  if (version.major_version != PJRT_API_MAJOR ||
      version.minor_version < kOldestMinor) {
    throw Error("loading the PJRT plugin: " + path + " speaks PJRT " +
                std::to_string(version.major_version) + "." +
                std::to_string(version.minor_version) + ": expected " +
                std::to_string(PJRT_API_MAJOR) + "." +
                std::to_string(kOldestMinor) + " or a newer " +
                std::to_string(PJRT_API_MAJOR) + ".x");
  }
  auto initialize = PJRT_ARGS(PJRT_Plugin_Initialize);
  Check(api_, api_->PJRT_Plugin_Initialize(&initialize),
        "initializing the PJRT plugin " + path);
}

Plugin::~Plugin() {
  if (client_ == nullptr) return;
  auto destroy = PJRT_ARGS(PJRT_Client_Destroy);
  destroy.client = client_;
  api_->PJRT_Client_Destroy(&destroy);
}

void Plugin::Register(const XlaFfiKit_HandlerTable& table) {
  const std::string error = RegisterWithPlugin(*api_, table);
  if (!error.empty()) throw Error(error);
}

void Plugin::Start() {
  auto create = PJRT_ARGS(PJRT_Client_Create);
  Check(api_, api_->PJRT_Client_Create(&create), "starting the PJRT client");
  client_ = create.client;
  auto devices = PJRT_ARGS(PJRT_Client_AddressableDevices);
  devices.client = client_;
  Check(api_, api_->PJRT_Client_AddressableDevices(&devices),
        "looking for a device");
  if (devices.num_addressable_devices == 0) {
    throw Error("looking for a device: the PJRT plugin has none here");
  }
  device_ = devices.addressable_devices[0];
}

Program Plugin::Compile(const std::string& code,
                        const std::string& format) const {
  auto program = PJRT_Program{};
  program.struct_size = PJRT_Program_STRUCT_SIZE;
  program.code = const_cast<char*>(code.data());  // only read
  program.code_size = code.size();
  program.format = format.data();
  program.format_size = format.size();
  auto compile = PJRT_ARGS(PJRT_Client_Compile);
  compile.client = client_;
  compile.program = &program;
  compile.compile_options = kCompileOptions;
  compile.compile_options_size = sizeof kCompileOptions;
  Check(api_, api_->PJRT_Client_Compile(&compile), "compiling the program");
  Program compiled;
  compiled.api_ = api_;
  compiled.client_ = client_;
  compiled.device_ = device_;
  compiled.executable_ = compile.executable;
  auto get = PJRT_ARGS(PJRT_LoadedExecutable_GetExecutable);
  get.loaded_executable = compile.executable;
  Check(api_, api_->PJRT_LoadedExecutable_GetExecutable(&get),
        "compiling the program");
  auto results = PJRT_ARGS(PJRT_Executable_NumOutputs);
  results.executable = get.executable;
  Check(api_, api_->PJRT_Executable_NumOutputs(&results),
        "compiling the program");
  auto destroy = PJRT_ARGS(PJRT_Executable_Destroy);
  destroy.executable = get.executable;
  Check(api_, api_->PJRT_Executable_Destroy(&destroy), "compiling the program");
  compiled.num_results_ = results.num_outputs;
  return compiled;
}

Program::Program(Program&& other)
    : api_(other.api_),
      client_(other.client_),
      device_(other.device_),
      executable_(other.executable_),
      num_results_(other.num_results_) {
  other.executable_ = nullptr;
}

Program::~Program() {
  if (executable_ == nullptr) return;
  auto destroy = PJRT_ARGS(PJRT_LoadedExecutable_Destroy);
  destroy.executable = executable_;
  api_->PJRT_LoadedExecutable_Destroy(&destroy);
}

std::vector<Array> Program::Run(
    const std::vector<const Array*>& arguments) const {
  Buffers inputs(api_), outputs(api_);
  for (size_t i = 0; i < arguments.size(); ++i) {
    const Array* const argument = arguments[i];
    const std::string what = "copying argument " + std::to_string(i);
    CheckSize(*argument, what);
    auto copy = PJRT_ARGS(PJRT_Client_BufferFromHostBuffer);
    copy.client = client_;
    copy.data = argument->bytes.data();
    copy.type = argument->shape.dtype->type;
    copy.dims = argument->shape.dims.data();
    copy.num_dims = argument->shape.dims.size();
    copy.host_buffer_semantics =
        PJRT_HostBufferSemantics_kImmutableOnlyDuringCall;
    copy.device = device_;
    Check(api_, api_->PJRT_Client_BufferFromHostBuffer(&copy), what);
    inputs.list.push_back(copy.buffer);
    Await(api_, copy.done_with_host_buffer, what);
  }
  outputs.list.resize(num_results_);
  PJRT_Buffer* const* argument_list = inputs.list.data();
  PJRT_Buffer** output_list = outputs.list.data();
  PJRT_ExecuteOptions options = {};
  options.struct_size = PJRT_ExecuteOptions_STRUCT_SIZE;
  PJRT_Event* done = nullptr;
  auto execute = PJRT_ARGS(PJRT_LoadedExecutable_Execute);
  execute.executable = executable_;
  execute.options = &options;
  execute.argument_lists = &argument_list;
  execute.num_devices = 1;
  execute.num_args = inputs.list.size();
  execute.output_lists = &output_list;
  execute.device_complete_events = &done;
  Check(api_, api_->PJRT_LoadedExecutable_Execute(&execute),
        "running the program");
  // Also for a program without results, whose handlers may fail.
  Await(api_, done, "running the program");
  std::vector<Array> results;
  for (PJRT_Buffer* buffer : outputs.list) {
    results.push_back(ToHost(api_, buffer));
  }
  return results;
}

}  // namespace xla_ffi_kit::pjrt
