// The fuzz target: every handler of a library must survive every call frame.
//
// Survive: return success or an error, and write nothing but its results. A
// handler that does not ends the program.
//
// Compiled once for each xla_ffi_fuzz_test(), with XLA_FFI_KIT_HANDLER_TABLE:
// the library's function that gives its table.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <map>
#include <string>

#include "xla_ffi/core/handler_table.h"
#include "xla_ffi/testing/fuzz/fuzz_frame.h"
#include "xla_ffi/testing/fuzz/fuzz_target.h"

extern "C" const XlaFfiKit_HandlerTable* XLA_FFI_KIT_HANDLER_TABLE();

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

// The numbers of variants of the seeds of a handler with a signature. All
// combinations are seeds.
constexpr int64_t kNumbers = 3;  // of its attributes
constexpr int64_t kDtypes = 3;
// Ranks: the least that the signature takes, and the next; others are as many.
constexpr uint8_t kForms[] = {16, 17};
// How many optional operands and results there are.
constexpr uint8_t kMore[][2] = {{0, 0}, {1, 1}, {2, 1}, {2, 0}};
// Which buffer is changed, if any; without its last axis, s32, with a longer
// last axis.
constexpr int64_t kChanged = 7;
constexpr uint8_t kChanges[] = {10, 240, 9};

constexpr int64_t kSeedsOfHandler = kNumbers * kDtypes * std::size(kForms) *
                                    std::size(kMore) * kChanged *
                                    std::size(kChanges);

// Beside these a handler's example, in f32 and f64.
constexpr int64_t kExamples = 2;

int64_t NumHandlers() {
  return static_cast<int64_t>(XLA_FFI_KIT_HANDLER_TABLE()->num_handlers);
}

size_t AttributesOf(const XlaFfiKit_Handler& handler) {
  return handler.signature == nullptr ? 0 : handler.signature->num_attributes;
}

}  // namespace

int64_t NumSeeds() { return (kExamples + kSeedsOfHandler) * NumHandlers(); }

size_t MakeSeed(int64_t index, uint8_t data[kMaxSeedBytes]) {
  uint8_t* next = data;
  // Begins a call of the execute stage, with one thread.
  const auto begin = [&](int64_t handler, uint8_t kind) {
    for (const int64_t byte :
         {handler, int64_t{0}, int64_t{0}, int64_t{kind}}) {
      *next++ = static_cast<uint8_t>(byte);
    }
  };
  if (index < kExamples * NumHandlers()) {
    begin(index / kExamples, kFuzzExample);
    // The rest is zeros: nothing is changed, but for the dtype.
    *next++ = static_cast<uint8_t>(index % kExamples);
    return static_cast<size_t>(next - data);
  }
  index -= kExamples * NumHandlers();
  const auto digit = [&](int64_t n) {
    const int64_t value = index % n;
    index /= n;
    return static_cast<uint8_t>(value);
  };
  const uint8_t number = digit(kNumbers), dtype = digit(kDtypes);
  const uint8_t form = kForms[digit(std::size(kForms))];
  const auto& more = kMore[digit(std::size(kMore))];
  const uint8_t changed = digit(kChanged);
  const uint8_t change = kChanges[digit(std::size(kChanges))];
  begin(index, kFuzzDescribed);
  next = std::copy(std::begin(more), std::end(more), next);
  *next++ = 0;  // its own attributes
  const XlaFfiKit_Handler& handler =
      XLA_FFI_KIT_HANDLER_TABLE()->handlers[index];
  next = std::fill_n(next, AttributesOf(handler), number);
  for (int i = 0; i < 7; ++i) {
    const bool is_changed = i + 1 == changed;
    *next++ = is_changed ? kFuzzChange : 0;
    *next++ = dtype;
    *next++ = form;
    for (const uint8_t dim : {3, 4, 3, 4}) *next++ = dim;
    if (is_changed) *next++ = change;
    *next++ = 7;  // the data
  }
  return static_cast<size_t>(next - data);
}

bool Report() {
  bool all_reached = true;
  const XlaFfiKit_HandlerTable* table = XLA_FFI_KIT_HANDLER_TABLE();
  for (size_t i = 0; i < table->num_handlers; ++i) {
    const XlaFfiKit_Handler& handler = table->handlers[i];
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
  FuzzFrame frame(*XLA_FFI_KIT_HANDLER_TABLE(), data, size);
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
