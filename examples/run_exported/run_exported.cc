// Runs a program that JAX exported, once, on any PJRT plugin, without Python.
//
//   run_exported PLUGIN.so PROGRAM [LIBRARY.so]... [SHAPE]... <IN >OUT
//
// PROGRAM is StableHLO, as `Exported.mlir_module_serialized` of jax.export, or,
// in a file that ends with .hlo, a serialized HloModuleProto. A LIBRARY has
// handlers that it calls. Each SHAPE, such as f32[4,256], is that of an
// argument, whose bytes stand in IN, row by row, one argument after the other;
// so do the results in OUT. A start for programs of your own: this one ends
// after a run, and so gives nothing back that the plugin made.

#include <dlfcn.h>

#include <cstdint>
#include <cstdio>
#include <exception>
#include <fstream>
#include <iostream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

#include "xla/pjrt/c/pjrt_c_api.h"
#include "xla_ffi/core/handler_table.h"
#include "xla_ffi/registration/pjrt_plugin.h"

namespace {

// One sentence, for users to read.
using Error = std::runtime_error;

// The oldest PJRT whose structs have what is used here: that of January 2025.
constexpr int kOldestMinor = 60;

// A CompileOptionsProto of one replica and one partition: its field 3,
// executable_build_options, with fields 4 and 5, each 1.
constexpr char kCompileOptions[] = {0x1a, 4, 0x20, 1, 0x28, 1};

// A struct of the C API, all zero but for its size.
template <typename Struct>
Struct Sized(size_t size) {
  Struct made = {};
  made.struct_size = size;
  return made;
}
#define PJRT(name) Sized<PJRT_##name>(PJRT_##name##_STRUCT_SIZE)

struct Dtype {
  const char* name;  // as XLA spells it
  PJRT_Buffer_Type type;
};

constexpr Dtype kDtypes[] = {
    {"pred", PJRT_Buffer_Type_PRED}, {"s8", PJRT_Buffer_Type_S8},
    {"s16", PJRT_Buffer_Type_S16},   {"s32", PJRT_Buffer_Type_S32},
    {"s64", PJRT_Buffer_Type_S64},   {"u8", PJRT_Buffer_Type_U8},
    {"u16", PJRT_Buffer_Type_U16},   {"u32", PJRT_Buffer_Type_U32},
    {"u64", PJRT_Buffer_Type_U64},   {"f16", PJRT_Buffer_Type_F16},
    {"bf16", PJRT_Buffer_Type_BF16}, {"f32", PJRT_Buffer_Type_F32},
    {"f64", PJRT_Buffer_Type_F64},   {"c64", PJRT_Buffer_Type_C64},
    {"c128", PJRT_Buffer_Type_C128},
};

struct Shape {
  PJRT_Buffer_Type type;
  std::vector<int64_t> dims;
  size_t bytes;
};

Shape ParseShape(const std::string& text) {
  const size_t open = text.find('[');
  const std::string name = text.substr(0, open);
  for (const Dtype& dtype : kDtypes) {
    if (name != dtype.name) continue;
    // The bits that the name ends with.
    const size_t digit = name.find_first_of("0123456789");
    const bool is_byte = digit == std::string::npos;
    Shape shape = {dtype.type, {}, is_byte ? 1 : stoul(name.substr(digit)) / 8};
    for (size_t at = open + 1; at < text.size() && text[at] != ']';) {
      size_t length = 0;
      shape.dims.push_back(std::stoll(text.substr(at), &length));
      shape.bytes *= static_cast<size_t>(shape.dims.back());
      at += length + (text[at + length] == ',');
    }
    return shape;
  }
  throw Error("expected a shape such as f32[4,256], got " + text);
}

// A function of a library, which stays loaded: XLA cannot be unloaded.
template <typename Function>
Function* Load(const std::string& path, const char* name) {
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw Error(dlerror());
  void* const function = dlsym(library, name);
  if (function == nullptr) throw Error(path + " exports no " + name);
  return reinterpret_cast<Function*>(function);
}

// A PJRT plugin, its client and the client's first device.
class Plugin {
 public:
  explicit Plugin(const std::string& path)
      : api_(Load<const PJRT_Api*()>(path, "GetPjrtApi")()) {
    const PJRT_Api_Version& version = api_->pjrt_api_version;
    if (version.major_version != PJRT_API_MAJOR ||
        version.minor_version < kOldestMinor) {
      throw Error(path + " speaks PJRT " +
                  std::to_string(version.major_version) + "." +
                  std::to_string(version.minor_version) + ": expected " +
                  std::to_string(PJRT_API_MAJOR) + "." +
                  std::to_string(kOldestMinor) + " or newer");
    }
    auto initialize = PJRT(Plugin_Initialize_Args);
    Check(api_->PJRT_Plugin_Initialize(&initialize), "initializing " + path);
  }

  // Before Compile(): the client wants to know types of state.
  void Register(const XlaFfiKit_HandlerTable& table) {
    const std::string error = xla_ffi_kit::RegisterWithPlugin(*api_, table);
    if (!error.empty()) throw Error(error);
  }

  // Starts the client and compiles a program for its first device.
  void Compile(const std::string& code, const std::string& format) {
    auto create = PJRT(Client_Create_Args);
    Check(api_->PJRT_Client_Create(&create), "starting the client");
    client_ = create.client;
    auto devices = PJRT(Client_AddressableDevices_Args);
    devices.client = client_;
    Check(api_->PJRT_Client_AddressableDevices(&devices), "finding a device");
    if (devices.num_addressable_devices == 0) throw Error("no device here");
    device_ = devices.addressable_devices[0];
    auto program = PJRT(Program);
    program.code = const_cast<char*>(code.data());  // only read
    program.code_size = code.size();
    program.format = format.data();
    program.format_size = format.size();
    auto compile = PJRT(Client_Compile_Args);
    compile.client = client_;
    compile.program = &program;
    compile.compile_options = kCompileOptions;
    compile.compile_options_size = sizeof kCompileOptions;
    Check(api_->PJRT_Client_Compile(&compile), "compiling the program");
    executable_ = compile.executable;
  }

  PJRT_Buffer* ToDevice(const Shape& shape, const std::string& bytes) {
    auto copy = PJRT(Client_BufferFromHostBuffer_Args);
    copy.client = client_;
    copy.device = device_;
    copy.data = bytes.data();
    copy.type = shape.type;
    copy.dims = shape.dims.data();
    copy.num_dims = shape.dims.size();
    copy.host_buffer_semantics =
        PJRT_HostBufferSemantics_kImmutableOnlyDuringCall;
    Check(api_->PJRT_Client_BufferFromHostBuffer(&copy), "copying an argument");
    return copy.buffer;
  }

  std::vector<PJRT_Buffer*> Run(const std::vector<PJRT_Buffer*>& arguments) {
    auto get = PJRT(LoadedExecutable_GetExecutable_Args);
    get.loaded_executable = executable_;
    Check(api_->PJRT_LoadedExecutable_GetExecutable(&get), "reading results");
    auto outputs = PJRT(Executable_NumOutputs_Args);
    outputs.executable = get.executable;
    Check(api_->PJRT_Executable_NumOutputs(&outputs), "reading results");
    std::vector<PJRT_Buffer*> results(outputs.num_outputs);
    PJRT_Buffer* const* argument_list = arguments.data();
    PJRT_Buffer** result_list = results.data();
    auto options = PJRT(ExecuteOptions);
    PJRT_Event* done = nullptr;
    auto execute = PJRT(LoadedExecutable_Execute_Args);
    execute.executable = executable_;
    execute.options = &options;
    execute.argument_lists = &argument_list;
    execute.num_devices = 1;
    execute.num_args = arguments.size();
    execute.output_lists = &result_list;
    execute.device_complete_events = &done;
    Check(api_->PJRT_LoadedExecutable_Execute(&execute), "running the program");
    Await(done, "running the program");  // here a handler's error arrives
    return results;
  }

  // In the layout on the device: row by row, as JAX asks for results.
  std::string ToHost(PJRT_Buffer* buffer) {
    auto copy = PJRT(Buffer_ToHostBuffer_Args);
    copy.src = buffer;
    // Without memory to copy to, it says how much that is.
    Check(api_->PJRT_Buffer_ToHostBuffer(&copy), "reading a result");
    std::string bytes(copy.dst_size, '\0');
    if (bytes.empty()) return bytes;
    copy.dst = bytes.data();
    Check(api_->PJRT_Buffer_ToHostBuffer(&copy), "reading a result");
    Await(copy.event, "reading a result");
    return bytes;
  }

 private:
  void Check(PJRT_Error* error, const std::string& what) {
    if (error == nullptr) return;
    auto get = PJRT(Error_Message_Args);
    get.error = error;
    api_->PJRT_Error_Message(&get);
    throw Error(what + ": " + std::string(get.message, get.message_size));
  }

  void Await(PJRT_Event* event, const std::string& what) {
    auto await = PJRT(Event_Await_Args);
    await.event = event;
    Check(api_->PJRT_Event_Await(&await), what);
  }

  const PJRT_Api* api_;
  PJRT_Client* client_ = nullptr;
  PJRT_Device* device_ = nullptr;
  PJRT_LoadedExecutable* executable_ = nullptr;
};

void Main(const std::vector<std::string>& arguments) {
  if (arguments.size() < 2) {
    throw Error("expected PLUGIN.so PROGRAM [LIBRARY.so]... [SHAPE]...");
  }
  Plugin plugin(arguments[0]);
  const std::string& path = arguments[1];
  std::vector<Shape> shapes;
  for (size_t i = 2; i < arguments.size(); ++i) {
    if (arguments[i].find('[') != std::string::npos) {
      shapes.push_back(ParseShape(arguments[i]));
    } else {
      plugin.Register(*Load<XlaFfiKit_GetHandlerTableFn>(
          arguments[i], "XlaFfiKit_GetHandlerTable")());
    }
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) throw Error("cannot read " + path);
  const std::string code(std::istreambuf_iterator<char>(file), {});
  const bool is_hlo = path.size() > 4 && path.substr(path.size() - 4) == ".hlo";
  plugin.Compile(code, is_hlo ? "hlo" : "mlir");
  std::vector<PJRT_Buffer*> operands;
  for (const Shape& shape : shapes) {
    std::string bytes(shape.bytes, '\0');
    std::cin.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    if (!std::cin) throw Error("stdin has fewer bytes than the arguments");
    operands.push_back(plugin.ToDevice(shape, bytes));
  }
  for (PJRT_Buffer* result : plugin.Run(operands)) {
    std::cout << plugin.ToHost(result);
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    Main({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "run_exported: %s\n", error.what());
    return 1;
  }
  return 0;
}
