// A parallel loop over XLA's intra-operation thread pool that cannot deadlock.
//
// A handler that schedules tasks and blocks until they ran can hang: it may
// itself occupy the pool's last thread, or every thread may be such a handler
// (5 of 5 runs of a program with 40 independent chains hung on two cores). So
// the caller works on the blocks too, and afterwards waits only for blocks
// that another thread has already begun. A task that starts later finds no
// block left and touches nothing of the caller's.

#ifndef XLA_FFI_CORE_PARALLEL_FOR_H_
#define XLA_FFI_CORE_PARALLEL_FOR_H_

#include <algorithm>
#include <atomic>
#include <chrono>              // NOLINT: as the FFI headers do
#include <condition_variable>  // NOLINT
#include <cstdint>
#include <memory>
#include <mutex>  // NOLINT

#include "xla_ffi/core/num_threads.h"

namespace xla_ffi_kit {

// Below this many bytes read and written a second thread costs more than it
// brings (measured: break-even at 512 KiB read plus 512 KiB written).
inline constexpr int64_t kParallelForMinBytes = 1 << 20;

namespace parallel_for_internal {

// Shared by the caller and the tasks; outlives the caller's frame, because a
// task may start when the loop is long over.
struct Blocks {
  explicit Blocks(int64_t n) : count(n) {}

  const int64_t count;
  std::atomic<int64_t> next{0};  // first block nobody has claimed
  std::atomic<int64_t> done{0};
  std::mutex mutex;
  std::condition_variable all_done;

  // Claims and runs blocks until none is left.
  template <typename RunBlock>
  void Work(const RunBlock& run_block) {
    for (;;) {
      const int64_t block = next.fetch_add(1, std::memory_order_relaxed);
      if (block >= count) return;
      run_block(block);
      // Release: what the block wrote is visible to whoever sees it done.
      if (done.fetch_add(1, std::memory_order_acq_rel) + 1 == count) {
        // The lock orders this with a waiter between its test and its wait.
        std::lock_guard<std::mutex> lock(mutex);
        all_done.notify_one();
      }
    }
  }

  bool IsDone() const { return done.load(std::memory_order_acquire) == count; }

  // To sleep and be woken takes 20 us, the time of a small block: first the
  // other threads are given as long as they mostly need.
  void WaitUntilDone() {
    using Clock = std::chrono::steady_clock;
    const auto end = Clock::now() + std::chrono::microseconds(50);
    while (!IsDone() && Clock::now() < end) {
    }
    if (IsDone()) return;
    std::unique_lock<std::mutex> lock(mutex);
    all_done.wait(lock, [&] { return IsDone(); });
  }
};

}  // namespace parallel_for_internal

// Calls fn(begin, end) on consecutive parts that cover [0, size) exactly once,
// possibly at the same time on several threads, and returns when all returned.
//
// `bytes_per_item`: bytes read plus bytes written for one item; decides how
// many parts pay. `pool`: xla::ffi::ThreadPool, or anything with its
// num_threads() and Schedule(f). `fn` must not throw.
template <typename Pool, typename Fn>
void ParallelFor(Pool& pool, int64_t size, int64_t bytes_per_item,
                 const Fn& fn) {
  if (size <= 0) return;
  // Divisions, not products, so that no size overflows. Half the minimum per
  // block: at the minimum itself, two blocks.
  const int64_t min_items = std::max<int64_t>(
      kParallelForMinBytes / 2 / std::max<int64_t>(bytes_per_item, 1), 1);
  if (size / min_items < 2) return fn(0, size);
  const int64_t threads = NumThreads(pool);
  if (threads < 2) return fn(0, size);

  // More blocks than threads, since a thread may come late or be slow.
  constexpr int64_t kBlocksPerThread = 4;
  const int64_t count = std::min(size / min_items, threads * kBlocksPerThread);
  const auto run_block = [size, count, &fn](int64_t block) {
    // The first `size % count` blocks have one item more.
    const int64_t base = size / count, extra = size % count;
    const int64_t begin = block * base + std::min(block, extra);
    fn(begin, begin + base + (block < extra ? 1 : 0));
  };
  const auto blocks = std::make_shared<parallel_for_internal::Blocks>(count);
  for (int64_t i = 1; i < std::min(threads, count); ++i) {
    // By value: a late task must not follow a reference into this frame.
    // (`run_block` holds one to `fn`, which only a claimed block uses.)
    pool.Schedule([blocks, run_block] { blocks->Work(run_block); });
  }
  blocks->Work(run_block);
  blocks->WaitUntilDone();
}

}  // namespace xla_ffi_kit

#endif  // XLA_FFI_CORE_PARALLEL_FOR_H_
