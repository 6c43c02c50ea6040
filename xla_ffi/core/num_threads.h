// How many threads a call may use: those of XLA's pool, or fewer.

#ifndef XLA_FFI_CORE_NUM_THREADS_H_
#define XLA_FFI_CORE_NUM_THREADS_H_

#include <algorithm>
#include <cstdint>
#include <cstdlib>

namespace xla_ffi_kit {

// Environment variable with the most threads a call of a handler may use, 1 or
// more; anything else, and its absence, leaves it to XLA's pool.
inline constexpr char kThreadsVariable[] = "XLA_FFI_KIT_THREADS";

// `pool`: xla::ffi::ThreadPool, or anything with its num_threads().
template <typename Pool>
int64_t NumThreads(Pool& pool) {
  const int64_t threads = pool.num_threads();
  // Read anew each time, so that a program can measure with and without: 50 ns,
  // where a second thread pays from 100 us on.
  const char* const value = std::getenv(kThreadsVariable);
  if (value == nullptr) return threads;
  const int64_t limit = std::strtoll(value, nullptr, 10);
  return limit < 1 ? threads : std::min(threads, limit);
}

}  // namespace xla_ffi_kit

#endif  // XLA_FFI_CORE_NUM_THREADS_H_
