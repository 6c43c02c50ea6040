// Serves a program that JAX exported, on any PJRT plugin, without Python.
//
//   server PLUGIN.so PROGRAM [--library=LIB.so]... [--socket=PATH]
//
// PROGRAM is what jax.export's Exported.serialize() wrote; each LIB.so is a
// library of handlers that it calls. Requests (see stream.h) come from stdin,
// or from any number of connections to a Unix socket; those of one connection
// are answered in their order. SIGTERM ends the server after it has answered
// every request that had arrived.

#include <dlfcn.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "examples/pjrt_server/pjrt/array.h"
#include "examples/pjrt_server/pjrt/exported.h"
#include "examples/pjrt_server/pjrt/plugin.h"
#include "examples/pjrt_server/stream.h"
#include "xla_ffi/core/handler_table.h"

namespace pjrt_server {
namespace {

using xla_ffi_kit::pjrt::Exported;
using xla_ffi_kit::pjrt::ParseExported;
using xla_ffi_kit::pjrt::Plugin;
using xla_ffi_kit::pjrt::Program;

constexpr int kMostConnections = 256;
// A client that reads nothing of its replies for so long is left.
constexpr timeval kPatience = {30, 0};

int stop_pipe[2];  // readable, for ever, from the first SIGTERM on

void OnSigterm(int) {
  [[maybe_unused]] const ssize_t put = write(stop_pipe[1], "", 1);
}

const XlaFfiKit_HandlerTable& LoadHandlers(const std::string& path) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    throw Error(std::string("loading handlers: ") + dlerror());
  }
  auto* get = reinterpret_cast<XlaFfiKit_GetHandlerTableFn*>(
      dlsym(library, "XlaFfiKit_GetHandlerTable"));
  if (get == nullptr) {
    throw Error("loading handlers: " + path +
                " exports no XlaFfiKit_GetHandlerTable: build it with "
                "xla_ffi_library()");
  }
  return *get();
}

struct Model {
  Exported exported;
  Program program;

  // Answers the requests of a stream, until its end.
  void Serve(Stream stream) const {
    std::vector<Array> request;
    for (int number = 1;; ++number) {
      const std::string prefix = "error request " + std::to_string(number);
      try {
        if (!stream.Read(exported.inputs, &request)) return;
        std::vector<const Array*> arguments;
        for (const int i : exported.kept) arguments.push_back(&request[i]);
        if (!stream.Write("ok", program.Run(arguments))) return;
      } catch (const Unreadable& error) {
        stream.Write(prefix + ": " + error.what(), {});
        return;
      } catch (const std::exception& error) {
        if (!stream.Write(prefix + ": " + error.what(), {})) return;
      }
    }
  }
};

Model Load(const Plugin& plugin, const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw Error("reading the program: cannot read " + path);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  try {
    Exported exported = ParseExported(bytes);
    Program program = plugin.Compile(exported.mlir, "mlir");
    return {std::move(exported), std::move(program)};
  } catch (const Error& error) {
    throw Error("reading the program: " + path + " " + error.what());
  }
}

int Listen(const std::string& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    throw Error("listening: " + path + " is longer than the " +
                std::to_string(sizeof address.sun_path - 1) +
                " bytes that the path of a Unix socket may have");
  }
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  // A socket that nobody listens to any more is in the way of bind().
  const int probe = socket(AF_UNIX, SOCK_STREAM, 0);
  const bool taken = connect(probe, generic, sizeof address) == 0;
  if (!taken && errno == ECONNREFUSED) unlink(path.c_str());
  close(probe);
  if (taken) throw Error("listening: another server listens on " + path);
  const int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
  if (bind(listener, generic, sizeof address) != 0 ||
      listen(listener, SOMAXCONN) != 0) {
    throw Error("listening: " + path + ": " + std::strerror(errno));
  }
  return listener;
}

void ServeSocket(const Model& model, const std::string& path) {
  const int listener = Listen(path);
  std::fprintf(stderr, "pjrt_server: %s: listening on %s\n",
               model.exported.name.c_str(), path.c_str());
  std::mutex mutex;
  std::condition_variable ended;
  int connections = 0;
  while (true) {
    pollfd wait[] = {{listener, POLLIN, 0}, {stop_pipe[0], POLLIN, 0}};
    if (poll(wait, 2, -1) < 0) continue;  // a signal
    // No new connection; those that are waiting are served first.
    if (wait[1].revents != 0) unlink(path.c_str());
    const int connection = accept(listener, nullptr, nullptr);
    if (connection < 0) {
      if (wait[1].revents != 0) break;
      continue;
    }
    setsockopt(connection, SOL_SOCKET, SO_SNDTIMEO, &kPatience,
               sizeof kPatience);
    std::lock_guard<std::mutex> lock(mutex);
    if (connections == kMostConnections) {
      Stream(connection, connection, stop_pipe[0])
          .Write("error the server has as many connections as it serves: " +
                     std::to_string(kMostConnections),
                 {});
      close(connection);
      continue;
    }
    ++connections;
    std::thread([&, connection] {
      model.Serve(Stream(connection, connection, stop_pipe[0]));
      close(connection);
      std::lock_guard<std::mutex> lock(mutex);
      --connections;
      ended.notify_one();
    }).detach();
  }
  std::unique_lock<std::mutex> lock(mutex);
  ended.wait(lock, [&] { return connections == 0; });
  close(listener);
}

void Main(const std::vector<std::string>& arguments) {
  std::vector<std::string> paths, libraries;
  std::string socket_path;
  for (const std::string& argument : arguments) {
    const std::string name = argument.substr(0, argument.find('=') + 1);
    if (name == "--library=") {
      libraries.push_back(argument.substr(name.size()));
    } else if (name == "--socket=") {
      socket_path = argument.substr(name.size());
    } else {
      paths.push_back(argument);
    }
  }
  if (paths.size() != 2) {
    throw Error(
        "expected PLUGIN.so PROGRAM [--library=LIB.so]... "
        "[--socket=PATH], got " +
        std::to_string(paths.size()) + " paths");
  }
  if (pipe(stop_pipe) != 0) throw Error("no pipe can be opened");
  Plugin plugin(paths[0]);
  for (const std::string& path : libraries) {
    plugin.Register(LoadHandlers(path));
  }
  plugin.Start();
  const Model model = Load(plugin, paths[1]);
  // Whoever reads no reply ends the connection, not the server.
  signal(SIGPIPE, SIG_IGN);
  signal(SIGTERM, OnSigterm);
  if (socket_path.empty()) {
    model.Serve(Stream(STDIN_FILENO, STDOUT_FILENO, stop_pipe[0]));
  } else {
    ServeSocket(model, socket_path);
  }
}

}  // namespace
}  // namespace pjrt_server

int main(int argc, char** argv) {
  try {
    pjrt_server::Main({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "pjrt_server: %s\n", error.what());
    return 1;
  }
}
