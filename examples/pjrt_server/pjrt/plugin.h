// A PJRT plugin as C++: what it takes to compile a program and run it on arrays
// of the host.

#ifndef EXAMPLES_PJRT_SERVER_PJRT_PLUGIN_H_
#define EXAMPLES_PJRT_SERVER_PJRT_PLUGIN_H_

#include <memory>
#include <string>
#include <vector>

#include "examples/pjrt_server/pjrt/array.h"
#include "xla/pjrt/c/pjrt_c_api.h"
#include "xla_ffi/core/handler_table.h"

namespace xla_ffi_kit::pjrt {

// A compiled program, which the plugin outlives. May run on several threads at
// the same time.
class Program {
 public:
  Program(Program&& other);
  Program& operator=(Program&&) = delete;
  ~Program();

  // The results of the program; the arguments have the shapes that it was
  // compiled for. Throws Error with what XLA or a handler says, or if an
  // argument has more or fewer bytes than its shape.
  std::vector<Array> Run(const std::vector<const Array*>& arguments) const;

 private:
  friend class Plugin;
  Program() = default;

  const PJRT_Api* api_;
  PJRT_Client* client_;
  PJRT_Device* device_;
  PJRT_LoadedExecutable* executable_;
  size_t num_results_;
};

// A plugin, its client and its first device. The library itself stays loaded:
// XLA cannot be unloaded. Functions throw Error.
class Plugin {
 public:
  // Loads the shared library at `path`.
  explicit Plugin(const std::string& path);
  Plugin(const Plugin&) = delete;
  ~Plugin();

  // Registers handlers. Before Start(): XLA wants types of state then.
  void Register(const XlaFfiKit_HandlerTable& table);
  // Starts the client.
  void Start();
  // Compiles a program; `format` is "mlir" (StableHLO, as text or bytecode) or
  // "hlo" (a serialized HloModuleProto).
  Program Compile(const std::string& code, const std::string& format) const;

 private:
  const PJRT_Api* api_;
  PJRT_Client* client_ = nullptr;
  PJRT_Device* device_ = nullptr;
};

}  // namespace xla_ffi_kit::pjrt

#endif  // EXAMPLES_PJRT_SERVER_PJRT_PLUGIN_H_
