// The server as a process: every reply is JAX's own, bit for bit, and whatever
// is wrong with a plugin, a program or a request is one sentence.

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr char kTestdata[] = "examples/pjrt_server/testdata/jax_";

std::string Read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string Of(const std::string& file) {
  return kTestdata + ("0.10.2/" + file);
}

std::string Temporary(const std::string& name) {
  return ::testing::TempDir() + "/" + name;
}

std::string Write(const std::string& name, const std::string& bytes) {
  std::ofstream(Temporary(name), std::ios::binary) << bytes;
  return Temporary(name);
}

// Equal, without a dump of the bytes if they are not.
void ExpectSame(const std::string& got, const std::string& expected) {
  size_t same = 0;
  while (same < std::min(got.size(), expected.size()) &&
         got[same] == expected[same]) {
    ++same;
  }
  EXPECT_TRUE(got == expected)
      << "of " << got.size() << " bytes, " << expected.size()
      << " expected, the first " << same
      << " are right; then: " << got.substr(same, 200);
}

std::string Repeated(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

// The server, started with its stdin, stdout and stderr in files.
class Server {
 public:
  explicit Server(std::vector<std::string> arguments,
                  const std::string& input = "") {
    Write("in", input);
    pid_ = fork();
    if (pid_ == 0) {
      const int read = O_RDONLY, write = O_WRONLY | O_CREAT | O_TRUNC;
      dup2(open(Temporary("in").c_str(), read), 0);
      dup2(open(Temporary("out").c_str(), write, 0600), 1);
      dup2(open(Temporary("err").c_str(), write, 0600), 2);
      arguments.insert(arguments.begin(), std::getenv("SERVER"));
      std::vector<char*> argv;
      for (std::string& argument : arguments) argv.push_back(argument.data());
      argv.push_back(nullptr);
      execv(argv[0], argv.data());
      _exit(127);
    }
  }
  ~Server() {
    if (pid_ > 0) kill(pid_, SIGKILL), Wait();
  }
  int Wait() {
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  void Terminate() { kill(pid_, SIGTERM); }
  static std::string Out() { return Read(Temporary("out")); }
  static std::string Err() { return Read(Temporary("err")); }

 private:
  pid_t pid_;
};

std::vector<std::string> Arguments(const std::string& program) {
  return {std::getenv("PLUGIN"), program,
          std::string("--library=") + std::getenv("HANDLERS")};
}

// The one sentence that the server ends with.
std::string Refusal(const std::vector<std::string>& arguments) {
  EXPECT_EQ(Server(arguments, Read(Of("request"))).Wait(), 1);
  EXPECT_EQ(Server::Out(), "");
  const std::string error = Server::Err();
  EXPECT_THAT(error, StartsWith("pjrt_server: "));
  EXPECT_EQ(error.find('\n'), error.size() - 1) << error;
  return error;
}

// The replies to what is in the server's stdin.
std::string Serve(const std::string& input) {
  EXPECT_EQ(Server(Arguments(Of("program")), input).Wait(), 0);
  EXPECT_EQ(Server::Err(), "");
  return Server::Out();
}

// --- Requests in stdin -------------------------------------------------------

TEST(ServerTest, RepliesAreThoseOfEachJax) {
  for (const std::string release : {"0.10.2", "0.12.0.1"}) {
    const std::string folder = kTestdata + release;
    const std::string request = Read(folder + "/request");
    Server server(Arguments(folder + "/program"), Repeated(request, 100));
    EXPECT_EQ(server.Wait(), 0);
    EXPECT_EQ(Server::Err(), "");
    ExpectSame(Server::Out(), Repeated(Read(folder + "/reply"), 100));
  }
}

TEST(ServerTest, RequestsOfOtherShapesAreDroppedAlone) {
  const std::string request = Read(Of("request")), reply = Read(Of("reply"));
  const std::string takes =
      ": the program takes f32[8] f32[16,24] f32[16] f32[4,16] s32[3], got ";
  ExpectSame(Serve(request + "f32[2]\n12345678" + request + "\n" + request +
                   // Of more bytes than the program takes in all.
                   "f32[1000000]\n" + std::string(4000000, 'x') + request +
                   // A number of dtype and rank as expected, and a size not.
                   "f32[9] f32[1,1] f32[0] f32[2,1] s32[]\n" +
                   std::string(52, 'x') + request),
             reply + "error request 2" + takes + "f32[2]\n" + reply +
                 "error request 4" + takes + "no arrays\n" + reply +
                 "error request 6" + takes + "f32[1000000]\n" + reply +
                 "error request 8" + takes +
                 "f32[9] f32[1,1] f32[0] f32[2,1] s32[]\n" + reply);
}

TEST(ServerTest, RequestThatIsCutOff) {
  const std::string request = Read(Of("request")), reply = Read(Of("reply"));
  ExpectSame(Serve(request + request.substr(0, 20)),
             reply +
                 "error request 2: it ended within its line of shapes: nothing "
                 "of it ran\n");
  ExpectSame(Serve(request + request.substr(0, request.size() - 1)),
             reply +
                 "error request 2: it ended after 11 of 12 bytes: nothing "
                 "of it ran\n");
}

// --- Requests from a socket --------------------------------------------------

// In a folder of its own: that of the tests has too long a name for a socket.
std::string Socket() {
  static std::string* const path = [] {
    char folder[] = "/tmp/pjrt_server_XXXXXX";
    return new std::string(mkdtemp(folder) + std::string("/socket"));
  }();
  return *path;
}

class Connection {
 public:
  explicit Connection(const std::string& path) {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
    // Until the server listens.
    for (int i = 0; i < 1000; ++i) {
      socket_ = socket(AF_UNIX, SOCK_STREAM, 0);
      if (connect(socket_, reinterpret_cast<sockaddr*>(&address),
                  sizeof address) == 0) {
        return;
      }
      close(socket_);
      usleep(10000);
    }
    ADD_FAILURE() << "nobody listens on " << path;
  }
  ~Connection() { close(socket_); }
  void Send(const std::string& text) const {
    for (size_t done = 0; done < text.size();) {
      const ssize_t put =
          send(socket_, &text[done], text.size() - done, MSG_NOSIGNAL);
      if (put <= 0) return;
      done += static_cast<size_t>(put);
    }
  }
  void End() const { shutdown(socket_, SHUT_WR); }
  // The next bytes, up to the end if there are no more.
  std::string Receive(size_t size) const {
    std::string text(size, '\0');
    size_t done = 0;
    while (done < size) {
      const ssize_t got = recv(socket_, &text[done], size - done, 0);
      if (got <= 0) break;
      done += static_cast<size_t>(got);
    }
    text.resize(done);
    return text;
  }

 private:
  int socket_;
};

std::vector<std::string> WithSocket() {
  std::vector<std::string> arguments = Arguments(Of("program"));
  arguments.push_back("--socket=" + Socket());
  return arguments;
}

TEST(ServerTest, WhatIsNoRequestEndsTheConnection) {
  const std::string request = Read(Of("request")), reply = Read(Of("reply"));
  Server server(WithSocket());
  const auto serve = [](const std::string& input) {
    const Connection connection(Socket());
    connection.Send(input);
    connection.End();
    return connection.Receive(1 << 16);
  };
  for (const std::string line :
       {"GET / HTTP/1.1", "f32[-1]", "f32[2", "f32[2]]", "f32[2,]", "f32",
        "f31[2]", "f32[2;3]", "[2]", "f32[99999999999999999999]"}) {
    EXPECT_THAT(serve(request + line + "\n" + request),
                AllOf(StartsWith(reply + "error request 2: expected a line of "
                                         "shapes such as f32[2,3], got \""),
                      EndsWith("\"\n")))
        << line;
  }
  ExpectSame(serve(request + "f32[4000000000,4000000000]\n" + request),
             reply +
                 "error request 2: f32[4000000000,4000000000] has more bytes "
                 "than 64 bits can count\n");
  EXPECT_THAT(serve(std::string(1000000, 'f')),
              StartsWith("error request 1: expected a line of shapes"));
}

TEST(ServerTest, ConnectionsAreServedTogether) {
  const std::string request = Read(Of("request")), reply = Read(Of("reply"));
  Server server(WithSocket());
  // One that says nothing keeps nobody from being served, nor the server from
  // ending.
  const Connection idle(Socket());
  std::vector<std::thread> clients;
  for (int client = 0; client < 8; ++client) {
    clients.emplace_back([&] {
      const Connection connection(Socket());
      connection.Send(Repeated(request, 20));
      ExpectSame(connection.Receive(20 * reply.size()), Repeated(reply, 20));
      connection.End();
      ExpectSame(connection.Receive(1), "");
    });
  }
  // Clients that go without reading their replies take nobody along.
  for (int i = 0; i < 20; ++i) {
    Connection(Socket()).Send(Repeated(request, 20));
  }
  for (std::thread& client : clients) client.join();
  server.Terminate();
  EXPECT_EQ(server.Wait(), 0);
}

TEST(ServerTest, SigtermLosesNothingThatHadArrived) {
  const std::string request = Read(Of("request")), reply = Read(Of("reply"));
  Server server(WithSocket());
  const Connection complete(Socket()), cut(Socket());
  cut.Send(request + request.substr(0, 1000));
  ExpectSame(cut.Receive(reply.size()), reply);
  complete.Send(Repeated(request, 50));
  server.Terminate();
  ExpectSame(complete.Receive(100 * reply.size()), Repeated(reply, 50));
  EXPECT_THAT(cut.Receive(1000),
              StartsWith("error request 2: the server is stopping: it ended "
                         "after "));
  EXPECT_EQ(server.Wait(), 0);
  EXPECT_NE(access(Socket().c_str(), F_OK), 0);
}

TEST(ServerTest, SocketThatIsInUse) {
  Server server(WithSocket());
  const Connection connection(Socket());
  // In files of its own.
  const std::string command = std::string(std::getenv("SERVER")) + " " +
                              WithSocket()[0] + " " + WithSocket()[1] + " " +
                              WithSocket()[2] + " " + WithSocket()[3] + " 2> " +
                              Temporary("second");
  EXPECT_NE(std::system(command.c_str()), 0);
  EXPECT_EQ(
      Read(Temporary("second")),
      "pjrt_server: listening: another server listens on " + Socket() + "\n");
}

TEST(ServerTest, SocketThatAnotherServerLeftBehind) {
  {
    Server killed(WithSocket());
    const Connection connection(Socket());
  }
  EXPECT_EQ(access(Socket().c_str(), F_OK), 0);
  Server server(WithSocket());
  const Connection connection(Socket());
  connection.Send(Read(Of("request")));
  ExpectSame(connection.Receive(Read(Of("reply")).size()), Read(Of("reply")));
}

TEST(ServerTest, SocketsPathIsTooLong) {
  std::vector<std::string> arguments = Arguments(Of("program"));
  arguments.push_back("--socket=" + std::string(200, 'x'));
  EXPECT_THAT(Refusal(arguments), HasSubstr("longer than the 107 bytes"));
}

// --- Plugins and programs ----------------------------------------------------

TEST(ServerTest, PluginsThatCannotServe) {
  const auto refusal = [](const std::string& plugin) {
    return Refusal({plugin, Of("program"),
                    std::string("--library=") + std::getenv("HANDLERS")});
  };
  EXPECT_THAT(refusal("no_such_plugin.so"),
              AllOf(HasSubstr("loading the PJRT plugin: no_such_plugin.so")));
  EXPECT_THAT(refusal(std::getenv("HANDLERS")),
              HasSubstr("exports no GetPjrtApi, so it is no PJRT plugin"));
  EXPECT_THAT(refusal("examples/pjrt_server/pjrt/plugin_newer.so"),
              HasSubstr("plugin_newer.so speaks PJRT 1."));
  EXPECT_THAT(refusal("examples/pjrt_server/pjrt/plugin_older.so"),
              HasSubstr("plugin_older.so speaks PJRT 0.3: expected 0.60 or a "
                        "newer 0.x"));
  EXPECT_THAT(refusal("examples/pjrt_server/pjrt/plugin_without_ffi.so"),
              HasSubstr("xla_ffi_kit_cpu: registering handlers: the PJRT "
                        "plugin has no FFI"));
}

TEST(ServerTest, HandlersThatAreNone) {
  std::vector<std::string> arguments = Arguments(Of("program"));
  arguments[2] = "--library=examples/pjrt_server/pjrt/plugin_without_ffi.so";
  EXPECT_THAT(Refusal(arguments),
              HasSubstr("exports no XlaFfiKit_GetHandlerTable: build it with "
                        "xla_ffi_library()"));
}

TEST(ServerTest, TargetThatNobodyRegistered) {
  std::vector<std::string> arguments = Arguments(Of("program"));
  arguments.pop_back();
  EXPECT_THAT(Refusal(arguments), AllOf(HasSubstr("compiling the program: "),
                                        HasSubstr("xla_ffi_kit.")));
}

TEST(ServerTest, ProgramsThatAreNone) {
  const std::string program = Read(Of("program"));
  EXPECT_THAT(Refusal(Arguments("no_such_program")),
              HasSubstr("reading the program: cannot read no_such_program"));
  EXPECT_THAT(
      Refusal(Arguments(Write("half", program.substr(0, program.size() / 2)))),
      HasSubstr("half is cut off, or not what jax.export's "
                "Exported.serialize() wrote"));
  EXPECT_THAT(Refusal(Arguments(Write("empty", ""))),
              HasSubstr("empty is cut off"));
  // Whole as a file, and not as a program.
  std::string damaged = program;
  const size_t bytecode = program.find("ML\xefR");
  ASSERT_NE(bytecode, std::string::npos);
  damaged.replace(bytecode + 100, 100, 100, '\xff');
  EXPECT_THAT(Refusal(Arguments(Write("damaged", damaged))),
              HasSubstr("compiling the program: "));
}

TEST(ServerTest, WrongArguments) {
  EXPECT_THAT(Refusal({"plugin.so"}),
              HasSubstr("expected PLUGIN.so PROGRAM [--library=LIB.so]... "
                        "[--socket=PATH], got 1 paths"));
}

}  // namespace
