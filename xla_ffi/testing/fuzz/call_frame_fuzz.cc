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
#include "xla_ffi/testing/fuzz/own_attributes.h"

extern "C" const XlaFfiKit_HandlerTable* XLA_FFI_KIT_HANDLER_TABLE();

namespace xla_ffi_kit::testing {
namespace {

struct Counts {
  long long successes = 0;  // NOLINT(runtime/int): printed
  long long errors = 0;     // NOLINT(runtime/int)
};

// By handler.
std::map<std::string, Counts>& AllCounts() {
  static auto* counts = new std::map<std::string, Counts>;
  return *counts;
}

const FuzzFrame* running = nullptr;

// What seeds differ in; their product is all seeds.
constexpr int64_t kOperands = 5;    // 1 to 5, and
constexpr int64_t kResults = 3;     // 1 to 3, all alike
constexpr int64_t kOtherOnes = 8;   // but one,
constexpr int64_t kAttributes = 3;  // with the handler's own attributes
// The other one: without the last axis; the last axis only; s32; s32 and
// without the last axis; s32 and the last axis only; with a longer last axis,
// and all after it in s32 as long.
constexpr uint8_t kLonger = 9, kS32AsBefore = 248;
constexpr uint8_t kForms[] = {10, 11, 240, 250, 251, kLonger};
constexpr uint8_t kDtypes[] = {0, 14};  // f32, and truth values

constexpr int64_t kSeedsOfHandler = kOperands * kResults * kOtherOnes *
                                    kAttributes * sizeof(kForms) *
                                    sizeof(kDtypes);

// Beside these a handler's example, in f32 and f64.
constexpr int64_t kExamples = 2;

int64_t NumHandlers() {
  return static_cast<int64_t>(XLA_FFI_KIT_HANDLER_TABLE()->num_handlers);
}

}  // namespace

int64_t NumSeeds() { return (kExamples + kSeedsOfHandler) * NumHandlers(); }

size_t MakeSeed(int64_t index, uint8_t data[kMaxSeedBytes]) {
  if (index < kExamples * NumHandlers()) {
    // The rest is zeros: nothing is changed, but for the dtype.
    const uint8_t seed[] = {static_cast<uint8_t>(index / kExamples), 0, 0, 255,
                            static_cast<uint8_t>(index % kExamples)};
    std::copy(std::begin(seed), std::end(seed), data);
    return sizeof(seed);
  }
  index -= kExamples * NumHandlers();
  const auto digit = [&](int64_t n) {
    const int64_t value = index % n;
    index /= n;
    return static_cast<uint8_t>(value);
  };
  const uint8_t number = digit(kAttributes);
  const uint8_t dtype = kDtypes[digit(sizeof(kDtypes))];
  const uint8_t form = kForms[digit(sizeof(kForms))];
  const uint8_t operands = digit(kOperands) + 1, results = digit(kResults) + 1;
  const uint8_t other_one = digit(kOtherOnes);
  const XlaFfiKit_Handler& handler =
      XLA_FFI_KIT_HANDLER_TABLE()->handlers[index];
  uint8_t* next = data;
  *next++ = static_cast<uint8_t>(index);
  *next++ = 0;  // to execute
  *next++ = 0;  // one thread
  *next++ = static_cast<uint8_t>(operands + 8 * results);
  *next++ = 0;  // its own attributes
  for (size_t i = 0; i < OwnAttributesOf(handler).size(); ++i) *next++ = number;
  *next++ = dtype;
  for (const uint8_t of_3_4 : {2, 3, 4}) *next++ = of_3_4;
  for (int i = 0; i < kOtherOnes; ++i) {
    const bool is_after = form == kLonger && i > other_one;
    *next++ = i == other_one ? form : is_after ? kS32AsBefore : 0;
    *next++ = 7;  // the data
  }
  return static_cast<size_t>(next - data);
}

bool Report() {
  bool all_reached = true;
  const XlaFfiKit_HandlerTable* table = XLA_FFI_KIT_HANDLER_TABLE();
  for (size_t i = 0; i < table->num_handlers; ++i) {
    const Counts counts = AllCounts()[table->handlers[i].name];
    std::printf("%-45s %10lld succeeded %10lld refused\n",
                table->handlers[i].name, counts.successes, counts.errors);
    if (counts.successes == 0 || counts.errors == 0) {
      std::printf("  never %s\n", counts.errors ? "succeeded" : "refused");
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
