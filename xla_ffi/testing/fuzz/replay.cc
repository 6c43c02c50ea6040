// Runs the fuzz target without a fuzzing engine: on every seed, or on the files
// that are its arguments.

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <vector>

#include "xla_ffi/testing/fuzz/fuzz_target.h"

namespace {

// Not async-signal-safe; good enough for a program that dies.
void OnSignal(int signal) {
  std::signal(signal, SIG_DFL);
  xla_ffi_kit::testing::DescribeCall();
  std::raise(signal);
}

}  // namespace

int main(int argc, char** argv) {
  using namespace xla_ffi_kit::testing;  // NOLINT: main
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL}) {
    std::signal(signal, OnSignal);
  }
  for (int i = 1; i < argc; ++i) {
    std::ifstream file(argv[i], std::ios::binary);
    const std::vector<char> input{std::istreambuf_iterator<char>(file), {}};
    LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(input.data()),
                           input.size());
  }
  if (argc > 1) return 0;
  for (int64_t i = 0; i < NumSeeds(); ++i) {
    uint8_t seed[kMaxSeedBytes];
    const size_t size = MakeSeed(i, seed);
    // A copy of exactly its size, so that reads beyond it are found.
    const std::vector<uint8_t> input(seed, seed + size);
    LLVMFuzzerTestOneInput(input.data(), size);
  }
  return Report() ? 0 : 1;
}
