// The fuzz target: every handler of a library must survive every call frame.
//
// Survive: return success or an error, and write nothing but its results. A
// handler that does not ends the program.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>

#include "xla_ffi/testing/fuzz/fuzz_frame.h"
#include "xla_ffi/testing/fuzz/fuzz_target.h"
#include "xla_ffi/testing/handlers/handlers.h"

namespace xla_ffi_kit::testing {
namespace {

struct Counts {
  long long successes = 0;  // NOLINT(runtime/int): printed
  long long errors = 0;     // NOLINT(runtime/int)
};

// The counts of each handler, by its target.
std::map<std::string, Counts>& AllCounts() {
  static auto* counts = new std::map<std::string, Counts>;
  return *counts;
}

const FuzzFrame* running = nullptr;

constexpr int64_t kSeedsOfHandler = 400;

int64_t NumHandlers() {
  return static_cast<int64_t>(TableUnderTest().num_handlers);
}

const HandlerHooks& Hooks() {
  static const auto& hooks = *new HandlerHooks(GetHandlerHooks());
  return hooks;
}

}  // namespace

int64_t NumSeeds() { return kSeedsOfHandler * NumHandlers(); }

// Random bytes, of which the first ones name a handler and its execute stage.
size_t MakeSeed(int64_t index, uint8_t data[kMaxSeedBytes]) {
  Choices choices(static_cast<uint32_t>(index));
  std::generate_n(data, kMaxSeedBytes, [&] { return choices.Byte(); });
  data[0] = static_cast<uint8_t>(index % NumHandlers());
  data[1] = 0;
  return kMaxSeedBytes;
}

bool Report() {
  bool all_reached = true;
  const XlaFfiKit_HandlerTable& table = TableUnderTest();
  for (size_t i = 0; i < table.num_handlers; ++i) {
    const XlaFfiKit_Handler& handler = table.handlers[i];
    const Counts counts = AllCounts()[handler.name];
    std::printf("%-45s %10lld succeeded %10lld refused\n", handler.name,
                counts.successes, counts.errors);
    if (counts.successes > 0 && counts.errors > 0) continue;
    std::printf("  never %s\n", counts.errors ? "succeeded" : "refused");
    // Nobody can know the calls of a handler that does not say what it takes.
    if (handler.signature == nullptr) {
      std::printf("  it has no signature\n");
    } else {
      all_reached = false;
    }
  }
  std::fflush(stdout);
  return all_reached;
}

void DescribeCall() {
  if (running == nullptr) return;
  std::fprintf(stderr, "The call: %s\n%s\n", running->ToString().c_str(),
               running->violation().c_str());
}

}  // namespace xla_ffi_kit::testing

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace xla_ffi_kit::testing;  // NOLINT: an extern "C" function
  FuzzFrame frame(TableUnderTest(), Hooks(), data, size);
  running = &frame;
  const Status status = frame.Run();
  if (!frame.violation().empty()) {
    DescribeCall();
    std::abort();
  }
  running = nullptr;
  Counts& counts = AllCounts()[frame.handler().name];
  (status.ok() && frame.is_execute() ? counts.successes : counts.errors) += 1;
  return 0;
}
