// An XLA_FFI_Api of the tests' own: what XLA does for a handler, in a program
// without XLA. Errors can be read back with their code.
//
// Handlers cannot be registered with it; everything else works as in XLA as
// long as the FakeContext has what is asked for.

#ifndef XLA_FFI_TESTING_FAKE_API_H_
#define XLA_FFI_TESTING_FAKE_API_H_

#include <condition_variable>  // NOLINT
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>  // NOLINT
#include <optional>
#include <string>
#include <thread>  // NOLINT
#include <vector>

#include "xla/ffi/api/c_api.h"

namespace xla_ffi_kit::testing {

// The target of the fake's XLA_FFI_Error pointers. (It is not a definition of
// XLA_FFI_Error itself, because XLA has one, and a test may link both.)
struct FakeError {
  XLA_FFI_Error_Code code;
  std::string message;
};

// The state that a handler's Instantiate stage made and that Execute gets,
// which XLA keeps for each custom call of an executable. Deletes it as XLA
// does.
class HandlerState {
 public:
  HandlerState() = default;
  ~HandlerState();
  HandlerState(const HandlerState&) = delete;
  HandlerState& operator=(const HandlerState&) = delete;

  bool empty() const { return object_ == nullptr; }

  // Null, or what XLA would answer.
  XLA_FFI_Error* Set(const XLA_FFI_TypeId& type, void* object);
  XLA_FFI_Error* Get(const XLA_FFI_TypeId& type, void** object) const;

 private:
  int64_t type_id_ = 0;
  void* object_ = nullptr;
};

// The target of the fake's XLA_FFI_Future pointers.
struct FakeFuture {
  // Waits until the future is complete, and then returns true; at most a
  // minute: a handler that takes longer has lost its promise.
  bool Await();
  void Complete(XLA_FFI_Error* result);

  std::mutex mutex;
  std::condition_variable completed;
  bool is_complete = false;
  XLA_FFI_Error* error = nullptr;
};

// What a handler may ask a call for.
struct ContextValues {
  int64_t num_threads = 1;  // 0: no thread pool, as on a GPU
  void* stream = nullptr;   // CUDA's default stream
  int64_t run_id = 0;
  int32_t device_ordinal = 0;
  std::optional<size_t> scratch_bytes;  // nothing: no allocator, as on a CPU
  std::map<int64_t, void*> user_data;   // by type id
  HandlerState* state = nullptr;
};

// The target of the fake's XLA_FFI_ExecutionContext pointers. The destructor
// waits for the tasks.
struct FakeContext : ContextValues {
  explicit FakeContext(const ContextValues& values) : ContextValues(values) {}
  ~FakeContext();

  std::mutex mutex;  // of what follows: a task may schedule another
  std::vector<std::thread> tasks;
  std::map<void*, size_t> scratch;  // allocations that are not free yet
};

// Never null; lives as long as the program.
const XLA_FFI_Api* FakeApi();

}  // namespace xla_ffi_kit::testing

#endif  // XLA_FFI_TESTING_FAKE_API_H_
