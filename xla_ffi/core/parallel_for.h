// Parallel loops over XLA's intra-operation thread pool that cannot deadlock.
//
// A handler that schedules tasks and blocks until they ran can hang: it may
// itself occupy the pool's last thread, or every thread may be such a handler
// (5 of 5 runs of a program with 40 independent chains hung on two cores). So
// the caller works on the tasks too, and afterwards waits only for tasks that
// another thread has already begun. A thread that comes later finds no task
// left and touches nothing of the caller's.

#ifndef XLA_FFI_CORE_PARALLEL_FOR_H_
#define XLA_FFI_CORE_PARALLEL_FOR_H_

#include <algorithm>
#include <atomic>
#include <chrono>              // NOLINT: as the FFI headers do
#include <condition_variable>  // NOLINT
#include <cstdint>
#include <limits>
#include <mutex>  // NOLINT

#include "xla_ffi/core/executor.h"

namespace xla_ffi_kit {

// Below this many bytes read and written a second thread costs more than it
// brings (measured: break-even at 512 KiB read plus 512 KiB written).
inline constexpr int64_t kParallelForMinBytes = 1 << 20;

// More parts than threads, since a thread may come late or be slow.
inline constexpr int64_t kPartsPerThread = 4;

namespace parallel_for_internal {

// Shared by the caller and the threads; outlives the caller's frame, because a
// thread may come when the loop is long over.
class Tasks {
 public:
  using Run = void(const void* context, int64_t task);

  // For `threads` threads, each of which must call Work() once.
  Tasks(int64_t count, int64_t threads, Run* run, const void* context)
      : count_(count), run_(run), context_(context), users_(threads) {}

  // Claims and runs tasks until none is left. Deletes this for the last thread.
  static void Work(void* data) {
    auto* const tasks = static_cast<Tasks*>(data);
    tasks->RunUnclaimed();
    tasks->Release();
  }

  void WorkAndWait() {
    RunUnclaimed();
    WaitUntilDone();
    Release();
  }

 private:
  void RunUnclaimed() {
    for (;;) {
      const int64_t task = next_.fetch_add(1, std::memory_order_relaxed);
      if (task >= count_) return;
      run_(context_, task);
      // Release: what the task wrote is visible to whoever sees it done.
      if (done_.fetch_add(1, std::memory_order_acq_rel) + 1 == count_) {
        // The lock orders this with a waiter between its test and its wait.
        std::lock_guard<std::mutex> lock(mutex_);
        all_done_.notify_one();
      }
    }
  }

  bool IsDone() const {
    return done_.load(std::memory_order_acquire) == count_;
  }

  // To sleep and be woken takes 20 us, the time of a small task: first the
  // other threads are given as long as they mostly need.
  void WaitUntilDone() {
    using Clock = std::chrono::steady_clock;
    const auto end = Clock::now() + std::chrono::microseconds(50);
    while (!IsDone() && Clock::now() < end) {
    }
    if (IsDone()) return;
    std::unique_lock<std::mutex> lock(mutex_);
    all_done_.wait(lock, [&] { return IsDone(); });
  }

  void Release() {
    if (users_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }

  const int64_t count_;
  Run* const run_;
  const void* const context_;     // the caller's: only for a claimed task
  std::atomic<int64_t> next_{0};  // first task nobody has claimed
  std::atomic<int64_t> done_{0};
  std::atomic<int64_t> users_;
  std::mutex mutex_;
  std::condition_variable all_done_;
};

// Without a template, so that a C function can offer the same.
inline void RunTasks(const Executor& executor, int64_t threads, int64_t count,
                     Tasks::Run* run, const void* context) {
  threads = std::min(threads, count);
  auto* const tasks = new Tasks(count, threads, run, context);
  for (int64_t i = 1; i < threads; ++i) executor.Schedule(Tasks::Work, tasks);
  tasks->WorkAndWait();
}

}  // namespace parallel_for_internal

// How many items of `item_size` are worth a thread, `min_part` being. (A
// division, not a product, so that no size overflows.)
inline int64_t MinItems(int64_t min_part, int64_t item_size) {
  return std::max<int64_t>(min_part / std::max<int64_t>(item_size, 1), 1);
}

// Into how many parts to divide `size` (bytes, elements), of which `min_part`
// are worth a thread: 1, or several for each thread, at most `max_parts`.
inline int64_t NumParts(
    const Executor& executor, int64_t size, int64_t min_part,
    int64_t max_parts = std::numeric_limits<int64_t>::max()) {
  const int64_t parts = std::min(size / min_part, max_parts);
  if (parts < 2) return 1;
  const int64_t threads = executor.num_threads();
  return threads < 2 ? 1 : std::min(parts, kPartsPerThread * threads);
}

// Where a part of [0, size) begins, 0 <= part <= parts, if the parts are even:
// the first `size % parts` have one item more.
inline int64_t PartBegin(int64_t size, int64_t parts, int64_t part) {
  return part * (size / parts) + std::min(part, size % parts);
}

// Calls task(i) once for each 0 <= i < count, possibly at the same time on
// several threads, and returns when all returned. Each call should be worth a
// thread (see NumParts). `task` must not throw.
template <typename Task>
void ParallelTasks(const Executor& executor, int64_t count, const Task& task) {
  const int64_t threads = count < 2 ? 1 : executor.num_threads();
  if (threads < 2) {
    for (int64_t i = 0; i < count; ++i) task(i);
    return;
  }
  const auto run = [](const void* context, int64_t i) {
    (*static_cast<const Task*>(context))(i);
  };
  parallel_for_internal::RunTasks(executor, threads, count, run, &task);
}

// Calls fn(begin, end) on that many even parts of [0, size), which cover it
// exactly once: as ParallelTasks calls its task.
template <typename Fn>
void ParallelParts(const Executor& executor, int64_t size, int64_t parts,
                   const Fn& fn) {
  if (parts < 2) return fn(0, size);
  ParallelTasks(executor, parts, [size, parts, &fn](int64_t part) {
    fn(PartBegin(size, parts, part), PartBegin(size, parts, part + 1));
  });
}

// Calls fn(begin, end) on consecutive parts that cover [0, size) exactly once,
// possibly at the same time on several threads, and returns when all returned.
//
// `bytes_per_item`: bytes read plus bytes written for one item; decides how
// many parts are worthwhile. `executor`: xla::ffi::ThreadPool, or anything that
// Executor takes. `fn` must not throw.
template <typename Fn>
void ParallelFor(const Executor& executor, int64_t size, int64_t bytes_per_item,
                 const Fn& fn) {
  if (size <= 0) return;
  // Half the minimum a part: at the minimum itself, two parts.
  const int64_t min_items = MinItems(kParallelForMinBytes / 2, bytes_per_item);
  ParallelParts(executor, size, NumParts(executor, size, min_items), fn);
}

}  // namespace xla_ffi_kit

#endif  // XLA_FFI_CORE_PARALLEL_FOR_H_
