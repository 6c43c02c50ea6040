// The threads a kernel may use, without the type of the pool they come from.
//
// A kernel that knows nothing of XLA takes `const Executor&`. Its handler
// passes XLA's thread pool; a test passes a pool of its own or nothing. An
// executor is two pointers, passed by reference or copied. The loops of
// parallel_for.h run on it.

#ifndef XLA_FFI_CORE_EXECUTOR_H_
#define XLA_FFI_CORE_EXECUTOR_H_

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "xla_ffi/core/environment.h"

namespace xla_ffi_kit {

class Executor {
 public:
  // Uses only the calling thread.
  Executor() = default;

  // Uses the threads of `pool`, which must outlive this. It is a
  // xla::ffi::ThreadPool, or anything with its num_threads() and Schedule(f).
  template <typename Pool, typename = std::enable_if_t<
                               !std::is_same_v<std::decay_t<Pool>, Executor>>>
  Executor(Pool& pool)  // NOLINT: a view, as std::string_view is of a string
      : pool_(&pool), functions_(&kFunctionsOf<Pool>) {}

  // The number of threads that a call may use, including the calling one: 1 or
  // more, and at most what the environment says.
  int64_t num_threads() const {
    if (functions_ == nullptr) return 1;
    const int64_t threads =
        std::max<int64_t>(functions_->num_threads(pool_), 1);
    return std::min(threads, ThreadLimit());
  }

  // Calls run(data) at some time, on some thread. Requires num_threads() > 1.
  // Returns false if the pool had no memory for it; run is not called then.
  [[nodiscard]] bool Schedule(void (*run)(void*) noexcept,
                              void* data) const noexcept {
    return functions_->schedule(pool_, run, data);
  }

 private:
  struct Functions {
    int64_t (*num_threads)(void* pool);
    bool (*schedule)(void* pool, void (*run)(void*) noexcept,
                     void* data) noexcept;
  };

  template <typename Pool>
  static constexpr Functions kFunctionsOf = {
      [](void* pool) -> int64_t {
        return static_cast<Pool*>(pool)->num_threads();
      },
      [](void* pool, void (*run)(void*) noexcept, void* data) noexcept {
        // A pool throws only if it has no memory, or no thread, for another
        // task.
        try {
          static_cast<Pool*>(pool)->Schedule([run, data] { run(data); });
          return true;
        } catch (...) {
          return false;
        }
      }};

  void* pool_ = nullptr;
  const Functions* functions_ = nullptr;
};

}  // namespace xla_ffi_kit

#endif  // XLA_FFI_CORE_EXECUTOR_H_
