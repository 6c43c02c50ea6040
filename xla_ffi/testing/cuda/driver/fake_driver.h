// The interface between a test and the driver of fake_driver.cc.

#ifndef XLA_FFI_TESTING_CUDA_DRIVER_FAKE_DRIVER_H_
#define XLA_FFI_TESTING_CUDA_DRIVER_FAKE_DRIVER_H_

#include <map>
#include <string>
#include <vector>

namespace xla_ffi_kit::testing {

struct FakeDriver {
  // Function -> the status that it returns without doing anything.
  std::map<std::string, int> failures;
  int major = 9, minor = 0;    // compute capability
  void* current = &major;      // the context of this thread
  void* of_streams = nullptr;  // the context of all streams; null: `current`
  // Context -> its number, 0 unless told.
  std::map<void*, unsigned long long> numbers;
  int capture_mode = 0;  // CU_STREAM_CAPTURE_MODE_GLOBAL
  bool is_capturing = false;
  std::vector<std::string> calls;  // of the functions, with what matters
};

// The type of `dlsym(driver, "XlaFfiKitFakeDriver")`.
using GetFakeDriver = FakeDriver*();

}  // namespace xla_ffi_kit::testing

#endif  // XLA_FFI_TESTING_CUDA_DRIVER_FAKE_DRIVER_H_
