// Runs a serialized HloModuleProto with handlers of a library on a PJRT plugin.
//
//   run_hlo PLUGIN.so PROGRAM.hlo LIBRARY.so SHAPE... <ARGUMENTS >RESULTS
//
// A SHAPE is that of an argument, such as f32[3,4]. Arguments and results are
// bytes without anything between them, row by row.

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

#include "examples/pjrt_server/pjrt/array.h"
#include "examples/pjrt_server/pjrt/plugin.h"
#include "xla_ffi/core/handler_table.h"

namespace {

using xla_ffi_kit::pjrt::Array;
using xla_ffi_kit::pjrt::Dtype;
using xla_ffi_kit::pjrt::Error;
using xla_ffi_kit::pjrt::kDtypes;
using xla_ffi_kit::pjrt::Plugin;
using xla_ffi_kit::pjrt::Program;
using xla_ffi_kit::pjrt::Shape;

Shape ParseShape(const std::string& text) {
  const size_t open = text.find('[');
  Shape shape = {};
  for (const Dtype& dtype : kDtypes) {
    if (text.substr(0, open) == dtype.name) shape.dtype = &dtype;
  }
  if (open == std::string::npos || shape.dtype == nullptr) {
    throw Error("expected a shape such as f32[3,4], got " + text);
  }
  for (size_t at = open + 1; at < text.size() && text[at] != ']';) {
    char* end = nullptr;
    shape.dims.push_back(std::strtoll(text.c_str() + at, &end, 10));
    at = static_cast<size_t>(end - text.c_str()) + 1;
  }
  return shape;
}

const XlaFfiKit_HandlerTable& Load(const char* path) {
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw Error(dlerror());
  void* get = dlsym(library, "XlaFfiKit_GetHandlerTable");
  if (get == nullptr) throw Error(std::string(path) + " has no handler table");
  return *reinterpret_cast<XlaFfiKit_GetHandlerTableFn*>(get)();
}

void Run(int argc, char** argv) {
  if (argc < 4) {
    throw Error("usage: run_hlo PLUGIN.so PROGRAM.hlo LIBRARY.so SHAPE...");
  }
  std::ifstream file(argv[2], std::ios::binary);
  if (!file) throw Error(std::string("cannot read ") + argv[2]);
  const std::string hlo{std::istreambuf_iterator<char>(file), {}};
  Plugin plugin(argv[1]);
  plugin.Register(Load(argv[3]));
  plugin.Start();
  const Program program = plugin.Compile(hlo, "hlo");
  std::vector<Array> arguments;
  for (int i = 4; i < argc; ++i) {
    Array array = {ParseShape(argv[i]), ""};
    array.bytes.resize(static_cast<size_t>(array.shape.Bytes()));
    std::cin.read(array.bytes.data(),
                  static_cast<std::streamsize>(array.bytes.size()));
    arguments.push_back(std::move(array));
  }
  if (!std::cin) throw Error("stdin has fewer bytes than the shapes");
  std::vector<const Array*> pointers;
  for (const Array& array : arguments) pointers.push_back(&array);
  for (const Array& result : program.Run(pointers)) {
    std::cout.write(result.bytes.data(),
                    static_cast<std::streamsize>(result.bytes.size()));
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    Run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "run_hlo: %s\n", error.what());
    return 1;
  }
  return 0;
}
