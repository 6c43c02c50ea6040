// A small fuzzing engine for compilers that have none.
//
// Runs LLVMFuzzerTestOneInput() on mutations of inputs, and keeps those inputs
// that showed something new: a code path (with gcc's
// -fsanitize-coverage=trace-pc; see --config=fuzz) or a behaviour that the
// target reports. Other engines, such as clang's libFuzzer, take its place at
// link time.

#ifndef XLA_FFI_TESTING_FUZZ_STANDALONE_ENGINE_H_
#define XLA_FFI_TESTING_FUZZ_STANDALONE_ENGINE_H_

#include <cstddef>
#include <cstdint>

extern "C" {

// What every target defines.
int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

// May be called by a target, with a text that says what the input did: a text
// that differs in more than its numbers is something new, and its words are
// used in mutations. Null with other engines.
void XlaFfiKit_FuzzObserve(const char* text, size_t size) __attribute__((weak));

// May be defined by a target: writes input number `index` of those to begin
// with to `data`, which has room for 64 bytes, and returns its size; 0 behind
// the last.
size_t XlaFfiKit_FuzzSeed(int64_t index, uint8_t* data) __attribute__((weak));

// May be defined by a target: called after a run, prints what was covered, and
// returns whether that is enough.
bool XlaFfiKit_FuzzReport() __attribute__((weak));

// May be defined by a target: prints the input that is being run.
void XlaFfiKit_FuzzDescribe() __attribute__((weak));

}  // extern "C"

#endif  // XLA_FFI_TESTING_FUZZ_STANDALONE_ENGINE_H_
