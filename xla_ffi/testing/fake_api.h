// An XLA_FFI_Api of the tests' own: errors that can be read back with their
// code, a thread pool, a null stream. Everything else returns UNIMPLEMENTED.

#ifndef XLA_FFI_TESTING_FAKE_API_H_
#define XLA_FFI_TESTING_FAKE_API_H_

#include <cstdint>
#include <string>
#include <thread>  // NOLINT
#include <vector>

#include "xla/ffi/api/c_api.h"

namespace xla_ffi_kit::testing {

// What the fake's XLA_FFI_Error pointers point to. (Not a definition of
// XLA_FFI_Error itself: XLA has one, and a test may link both.)
struct FakeError {
  XLA_FFI_Error_Code code;
  std::string message;
};

// What the fake's XLA_FFI_ExecutionContext pointers point to. The destructor
// waits for the tasks.
struct FakeContext {
  ~FakeContext() {
    for (std::thread& task : tasks) task.join();
  }

  int64_t num_threads = 1;
  std::vector<std::thread> tasks;  // only the calling thread schedules
};

// Never null; lives as long as the program.
const XLA_FFI_Api* FakeApi();

}  // namespace xla_ffi_kit::testing

#endif  // XLA_FFI_TESTING_FAKE_API_H_
