// Code paths that an input takes, where the code under test is compiled with
// -fsanitize-coverage=trace-pc; elsewhere there are none.

#ifndef XLA_FFI_TESTING_FUZZ_COVERAGE_H_
#define XLA_FFI_TESTING_FUZZ_COVERAGE_H_

#include <cstdint>

namespace xla_ffi_kit::testing {

// Records the paths of the calling thread, from here to EndCoverage(), which
// returns whether one is new or was taken far more often than ever before.
void BeginCoverage();
bool EndCoverage();

// Different paths so far.
int64_t CoveredPaths();

}  // namespace xla_ffi_kit::testing

#endif  // XLA_FFI_TESTING_FUZZ_COVERAGE_H_
