// The target's functions for libFuzzer besides running an input: the seeds, and
// a report.

#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "xla_ffi/testing/fuzz/fuzz_target.h"

// libFuzzer's own mutations.
extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace {

int64_t turns = 0;

// Runs of single inputs reach one handler each.
void ExitWithReport() {
  using namespace xla_ffi_kit::testing;  // NOLINT
  if (turns > NumSeeds() && !Report()) std::_Exit(1);
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  std::atexit(ExitWithReport);
  return 0;
}

// First all seeds, later one in 16 inputs.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size,
                                          size_t max_size, unsigned int) {
  using namespace xla_ffi_kit::testing;  // NOLINT: an extern "C" function
  const int64_t turn = turns++;
  if ((turn >= NumSeeds() && turn % 16 != 0) || max_size < kMaxSeedBytes) {
    return LLVMFuzzerMutate(data, size, max_size);
  }
  // A prime step: one after the other, they differ in everything.
  constexpr int64_t kStep = 1'000'003;
  return MakeSeed(turn * kStep % NumSeeds(), data);
}
