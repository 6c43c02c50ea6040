// Between the fuzz target and the program that runs it: clang's libFuzzer, or
// the replay of seeds where the compiler has no libFuzzer.

#ifndef XLA_FFI_TESTING_FUZZ_FUZZ_TARGET_H_
#define XLA_FFI_TESTING_FUZZ_FUZZ_TARGET_H_

#include <cstddef>
#include <cstdint>

// The function that libFuzzer calls.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace xla_ffi_kit::testing {

inline constexpr size_t kMaxSeedBytes = 128;

int64_t NumSeeds();

// Writes an input to begin with, 0 <= index < NumSeeds(); returns its size.
size_t MakeSeed(int64_t index, uint8_t data[kMaxSeedBytes]);

// Prints how often each handler succeeded and refused; returns whether each did
// both. A handler whose frames are all refused has a kernel that nobody tested.
bool Report();

// Prints the call that is being run: for whoever ends the program.
void DescribeCall();

}  // namespace xla_ffi_kit::testing

#endif  // XLA_FFI_TESTING_FUZZ_FUZZ_TARGET_H_
