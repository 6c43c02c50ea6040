// A thread pool for ParallelFor that starts a thread for every task.

#ifndef XLA_FFI_TESTING_THREADED_POOL_H_
#define XLA_FFI_TESTING_THREADED_POOL_H_

#include <cstddef>
#include <cstdint>
#include <thread>  // NOLINT
#include <utility>
#include <vector>

namespace xla_ffi_kit::testing {

class ThreadedPool {
 public:
  explicit ThreadedPool(int64_t threads) : threads_(threads) {}
  ~ThreadedPool() {
    for (std::thread& thread : running_) thread.join();
  }

  // The number of threads that the pool reports.
  int64_t num_threads() const { return threads_; }

  template <typename F>
  void Schedule(F f) {
    running_.emplace_back(std::move(f));
  }

  // How many tasks so far.
  size_t scheduled() const { return running_.size(); }

 private:
  int64_t threads_;
  std::vector<std::thread> running_;
};

}  // namespace xla_ffi_kit::testing

#endif  // XLA_FFI_TESTING_THREADED_POOL_H_
