// The standard entry point of fuzzing engines: every handler of the kit must
// survive every call frame.
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
#include <utility>
#include <vector>

#include "xla_ffi/core/handler_table.h"
#include "xla_ffi/registry/registry.h"
#include "xla_ffi/testing/fuzz/fuzz_frame.h"
#include "xla_ffi/testing/fuzz/standalone_engine.h"

namespace xla_ffi_kit::testing {
namespace {

struct Counts {
  int64_t successes = 0;
  int64_t errors = 0;
};

// By handler.
std::map<std::string, Counts>& AllCounts() {
  static auto* counts = new std::map<std::string, Counts>;
  return *counts;
}

// For whoever ends the program.
const FuzzFrame* running = nullptr;

}  // namespace
}  // namespace xla_ffi_kit::testing

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace xla_ffi_kit::testing;  // NOLINT: an extern "C" function
  FuzzFrame frame(*XlaFfiKit_CpuHandlerTable(), data, size);
  running = &frame;
  const Status status = frame.Run();
  if (!frame.violation().empty()) std::abort();
  Counts& counts = AllCounts()[frame.handler().name];
  (status.ok() && frame.is_execute() ? counts.successes : counts.errors) += 1;
  if (XlaFfiKit_FuzzObserve != nullptr) {
    std::string behaviour = frame.handler().name;
    behaviour += " " + (status.ok() ? frame.Kind() : status.message);
    XlaFfiKit_FuzzObserve(behaviour.data(), behaviour.size());
  }
  return 0;
}

// Each handler with 1 to 5 operands and 1 to 3 results, all alike but one, and
// one attribute or none: right calls of most handlers are among them.
extern "C" size_t XlaFfiKit_FuzzSeed(int64_t index, uint8_t* data) {
  const auto digit = [&](int64_t n) {
    const int64_t value = index % n;
    index /= n;
    return static_cast<uint8_t>(value);
  };
  // None; eps; num_keys; those of argmax, cumulative and nonzero; none, of
  // truth values, as isin's result is.
  constexpr uint8_t kF32 = 0, kPred = 14;
  struct Form {
    std::vector<uint8_t> attributes;
    uint8_t dtype;
  };
  static const auto& kModels = *new std::vector<Form>{
      {{128}, kF32},       {{0, 0, 0, 0}, kF32},   {{0, 1, 1, 0}, kF32},
      {{120, 0, 0}, kF32}, {{121, 0, 2, 0}, kF32}, {{122, 4, 0}, kPred},
      {{128}, kPred}};
  // Without the last axis; the last axis alone; s32; s32 without the last axis.
  constexpr uint8_t kForms[] = {10, 11, 240, 250};
  const auto& [attributes, dtype] = kModels[digit(7)];
  const uint8_t form = kForms[digit(4)];
  const uint8_t operands = digit(5) + 1, results = digit(3) + 1;
  const uint8_t other_one = digit(8);
  const size_t handlers = XlaFfiKit_CpuHandlerTable()->num_handlers;
  if (index >= static_cast<int64_t>(handlers)) return 0;
  uint8_t* next = data;
  *next++ = static_cast<uint8_t>(index);
  *next++ = 0;  // to execute
  *next++ = 0;  // one thread
  *next++ = static_cast<uint8_t>(operands + 8 * results);
  next = std::copy(attributes.begin(), attributes.end(), next);
  *next++ = dtype;
  for (const uint8_t of_3_4 : {2, 3, 4}) *next++ = of_3_4;
  for (int i = 0; i < 8; ++i) {
    *next++ = i == other_one ? form : 0;
    *next++ = 7;  // the data
  }
  return static_cast<size_t>(next - data);
}

extern "C" void XlaFfiKit_FuzzDescribe() {
  using namespace xla_ffi_kit::testing;  // NOLINT
  if (running == nullptr) return;
  std::fprintf(stderr, "The call: %s\n%s\n", running->ToString().c_str(),
               running->violation().c_str());
}

// A fuzzer whose frames a handler all refuses does not test its kernel.
extern "C" bool XlaFfiKit_FuzzReport() {
  using namespace xla_ffi_kit::testing;  // NOLINT
  bool all_reached = true;
  const XlaFfiKit_HandlerTable* table = XlaFfiKit_CpuHandlerTable();
  for (size_t i = 0; i < table->num_handlers; ++i) {
    const Counts counts = AllCounts()[table->handlers[i].name];
    std::printf("%-45s %10lld succeeded %10lld refused\n",
                table->handlers[i].name,
                static_cast<long long>(counts.successes),
                static_cast<long long>(counts.errors));
    all_reached = all_reached && counts.successes > 0 && counts.errors > 0;
  }
  if (!all_reached) std::printf("A handler was never reached.\n");
  return all_reached;
}
