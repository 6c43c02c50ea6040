#include "xla_ffi/testing/fuzz/coverage.h"

#include <cstddef>
#include <cstdint>

extern "C" const char __executable_start;  // by the linker

namespace xla_ffi_kit::testing {
namespace {

// A path is a pair of basic blocks, one after the other, hashed.
constexpr size_t kSlots = size_t{1} << 16;

struct Slot {
  uint8_t count = 0;  // of the current input
  uint8_t seen = 0;   // bit i: an input took the path 2^i to 2^(i+1) - 1 times
};

Slot slots[kSlots];
uint32_t touched[kSlots];  // slots whose count is not 0
size_t num_touched = 0;
int64_t num_paths = 0;
// Tasks on other threads come in any order: what they do is not recorded.
thread_local bool is_recording = false;
thread_local uintptr_t previous = 0;

uint8_t Magnitude(uint8_t count) {
  return static_cast<uint8_t>(1 << (31 - __builtin_clz(count)));
}

}  // namespace

void BeginCoverage() {
  num_touched = 0;
  previous = 0;
  is_recording = true;
}

bool EndCoverage() {
  is_recording = false;
  bool is_new = false;
  for (size_t i = 0; i < num_touched; ++i) {
    Slot& slot = slots[touched[i]];
    const uint8_t bit = Magnitude(slot.count);
    slot.count = 0;
    if (slot.seen & bit) continue;
    num_paths += slot.seen == 0;
    slot.seen |= bit;
    is_new = true;
  }
  return is_new;
}

int64_t CoveredPaths() { return num_paths; }

}  // namespace xla_ffi_kit::testing

// Called by the instrumented code at the beginning of each basic block.
extern "C" void __sanitizer_cov_trace_pc() {
  using namespace xla_ffi_kit::testing;  // NOLINT: an extern "C" function
  if (!is_recording) return;
  // Relative to the program, so that a seed finds the same in every process.
  const uintptr_t pc =
      reinterpret_cast<uintptr_t>(__builtin_return_address(0)) -
      reinterpret_cast<uintptr_t>(&__executable_start);
  const size_t at = ((pc * 0x9e3779b97f4a7c15) >> 40 ^ previous) % kSlots;
  previous = pc * 0x9e3779b97f4a7c15 >> 41;
  Slot& slot = slots[at];
  if (slot.count == 0) touched[num_touched++] = static_cast<uint32_t>(at);
  if (slot.count < 255) ++slot.count;
}
