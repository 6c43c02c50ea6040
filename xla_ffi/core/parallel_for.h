// Parallel loops over XLA's intra-operation thread pool that cannot deadlock.
//
// A handler that schedules tasks and blocks until they ran can hang: it may
// itself occupy the pool's last thread, or every thread may be in such a
// handler. The caller therefore works on the tasks too, and afterwards waits
// only for tasks that another thread has already begun. A thread that comes
// later finds no task left and touches nothing of the caller's.
//
// Tasks must be noexcept: on another thread nobody would catch what they throw,
// and in the calling one it would free what the others use. So they allocate
// nothing. A loop takes from its caller the memory that its tasks need, for
// each worker its own (WorkerScratch in host_scratch.h). It needs little
// itself, and where even that is missing it runs in the calling thread.

#ifndef XLA_FFI_CORE_PARALLEL_FOR_H_
#define XLA_FFI_CORE_PARALLEL_FOR_H_

#include <algorithm>
#include <atomic>
#include <chrono>              // NOLINT: as the FFI headers do
#include <condition_variable>  // NOLINT
#include <cstdint>
#include <limits>
#include <mutex>  // NOLINT
#include <new>
#include <type_traits>

#include "xla_ffi/core/executor.h"

namespace xla_ffi_kit {

// Below this many bytes, read and written, a second thread costs more than it
// gains.
inline constexpr int64_t kParallelForMinBytes = 1 << 20;

// There are more parts than threads, because a thread may come late or be slow.
inline constexpr int64_t kPartsPerThread = 4;

namespace parallel_for_internal {

// Shared by the caller and the threads; outlives the caller's frame, because a
// thread may come when the loop is long over.
class Tasks {
 public:
  using Run = void(const void* context, int64_t task, int64_t worker) noexcept;

  // Each of the `threads` threads must call Work() once.
  Tasks(int64_t count, int64_t threads, Run* run, const void* context)
      : count_(count), run_(run), context_(context), users_(threads) {}

  // Claims and runs tasks until none is left. Deletes this for the last thread.
  static void Work(void* data) noexcept {
    auto* const tasks = static_cast<Tasks*>(data);
    tasks->RunUnclaimed();
    tasks->Release(1);
  }

  // The caller's part, when `absent` of the other threads were not to be had.
  void WorkAndWait(int64_t absent) noexcept {
    RunUnclaimed();
    WaitUntilDone();
    Release(1 + absent);
  }

 private:
  void RunUnclaimed() noexcept {
    const int64_t worker = workers_.fetch_add(1, std::memory_order_relaxed);
    for (;;) {
      const int64_t task = next_.fetch_add(1, std::memory_order_relaxed);
      if (task >= count_) return;
      run_(context_, task, worker);
      // Release: what the task wrote is visible to whoever sees it done.
      if (done_.fetch_add(1, std::memory_order_acq_rel) + 1 == count_) {
        // The lock orders this with a waiter between its test and its wait.
        std::lock_guard<std::mutex> lock(mutex_);
        all_done_.notify_one();
      }
    }
  }

  // Leaves a core's units to its other thread, which may run a task.
  static void Pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
  }

  bool IsDone() const {
    return done_.load(std::memory_order_acquire) == count_;
  }

  // Sleeping and being woken takes as long as a small task. The caller
  // therefore first waits awake, for as long as the other threads mostly need.
  void WaitUntilDone() {
    using Clock = std::chrono::steady_clock;
    const auto end = Clock::now() + std::chrono::microseconds(50);
    while (!IsDone() && Clock::now() < end) Pause();
    if (IsDone()) return;
    std::unique_lock<std::mutex> lock(mutex_);
    all_done_.wait(lock, [&] { return IsDone(); });
  }

  void Release(int64_t users) {
    if (users_.fetch_sub(users, std::memory_order_acq_rel) == users) {
      delete this;
    }
  }

  const int64_t count_;
  Run* const run_;
  const void* const context_;     // the caller's: only for a claimed task
  std::atomic<int64_t> next_{0};  // first task nobody has claimed
  std::atomic<int64_t> done_{0};
  std::atomic<int64_t> workers_{0};  // threads that have come
  std::atomic<int64_t> users_;
  std::mutex mutex_;
  std::condition_variable all_done_;
};

// This is not a template, so that a C function can offer the same.
inline void RunTasks(const Executor& executor, int64_t threads, int64_t count,
                     Tasks::Run* run, const void* context) noexcept {
  threads = std::min(threads, count);
  auto* const tasks = threads < 2 ? nullptr
                                  : new (std::nothrow)
                                        Tasks(count, threads, run, context);
  if (tasks == nullptr) {
    for (int64_t i = 0; i < count; ++i) run(context, i, 0);
    return;
  }
  int64_t others = 0;
  while (others < threads - 1 && executor.Schedule(Tasks::Work, tasks)) {
    ++others;
  }
  tasks->WorkAndWait(threads - 1 - others);
}

// fn(args..., worker), or fn(args...) if it takes no worker.
template <typename Fn, typename... Args>
void Call(const Fn& fn, int64_t worker, Args... args) noexcept {
  if constexpr (std::is_invocable_v<const Fn&, Args..., int64_t>) {
    static_assert(std::is_nothrow_invocable_v<const Fn&, Args..., int64_t>,
                  "a task must be declared noexcept, and allocate nothing");
    fn(args..., worker);
  } else {
    static_assert(std::is_nothrow_invocable_v<const Fn&, Args...>,
                  "a task must be declared noexcept, and allocate nothing");
    fn(args...);
  }
}

}  // namespace parallel_for_internal

// Returns the number of parts to divide `size` (bytes or elements) into, where
// `min_part` is worth a thread: 1, or several for each thread, at most
// `max_parts`.
inline int64_t NumParts(
    const Executor& executor, int64_t size, int64_t min_part,
    int64_t max_parts = std::numeric_limits<int64_t>::max()) {
  const int64_t parts = std::min(size / min_part, max_parts);
  if (parts < 2) return 1;
  const int64_t threads = executor.num_threads();
  return threads < 2 ? 1 : std::min(parts, kPartsPerThread * threads);
}

// Returns where a part of [0, size) begins, 0 <= part <= parts. The parts are
// even: the first `size % parts` have one item more.
inline int64_t PartBegin(int64_t size, int64_t parts, int64_t part) {
  return part * (size / parts) + std::min(part, size % parts);
}

// Returns the most workers of a loop over `tasks` tasks or parts: the caller,
// and the threads that help. Each has a number below that, and runs one task at
// a time.
inline int64_t NumWorkers(const Executor& executor, int64_t tasks) {
  return tasks < 2 ? 1 : std::min(executor.num_threads(), tasks);
}

// Calls task(i) or task(i, worker) once for each 0 <= i < count, possibly at
// the same time on several threads, and returns when all returned. Each call
// should be worth a thread (see NumParts). `task` is noexcept.
template <typename Task>
void ParallelTasks(const Executor& executor, int64_t count, const Task& task) {
  const auto run = [](const void* context, int64_t i, int64_t worker) noexcept {
    parallel_for_internal::Call(*static_cast<const Task*>(context), worker, i);
  };
  parallel_for_internal::RunTasks(executor, NumWorkers(executor, count), count,
                                  run, &task);
}

// Calls fn(begin, end) or fn(begin, end, worker) on that many even parts of
// [0, size), which cover it exactly once: as ParallelTasks calls its task.
template <typename Fn>
void ParallelParts(const Executor& executor, int64_t size, int64_t parts,
                   const Fn& fn) {
  using parallel_for_internal::Call;
  if (parts < 2) return Call(fn, 0, int64_t{0}, size);
  ParallelTasks(executor, parts,
                [size, parts, &fn](int64_t part, int64_t worker) noexcept {
                  Call(fn, worker, PartBegin(size, parts, part),
                       PartBegin(size, parts, part + 1));
                });
}

// Calls fn(begin, end) or fn(begin, end, worker) on consecutive parts that
// cover [0, size) exactly once, possibly at the same time on several threads,
// and returns when all returned.
//
// `bytes_per_item`: bytes read plus bytes written for one item; decides how
// many parts are worthwhile. `executor`: xla::ffi::ThreadPool, or anything that
// Executor takes. `fn` is noexcept:
//
//   ParallelFor(pool, n, 2 * sizeof(T), [&](int64_t begin, int64_t end)
//   noexcept { ... });
template <typename Fn>
void ParallelFor(const Executor& executor, int64_t size, int64_t bytes_per_item,
                 const Fn& fn) {
  if (size <= 0) return;
  // Half the minimum for each part, so that the minimum itself is two parts. (A
  // quotient, so that no size overflows.)
  const int64_t min_items = std::max<int64_t>(
      kParallelForMinBytes / 2 / std::max<int64_t>(bytes_per_item, 1), 1);
  ParallelParts(executor, size, NumParts(executor, size, min_items), fn);
}

}  // namespace xla_ffi_kit

#endif  // XLA_FFI_CORE_PARALLEL_FOR_H_
