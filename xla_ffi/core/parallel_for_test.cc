#include "xla_ffi/core/parallel_for.h"

#include <algorithm>
#include <atomic>
#include <chrono>  // NOLINT
#include <cstdint>
#include <functional>
#include <limits>
#include <new>
#include <thread>  // NOLINT
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "xla_ffi/testing/threaded_pool.h"

namespace xla_ffi_kit {
namespace {

using testing::ThreadedPool;

constexpr int64_t kLarge = kParallelForMinBytes;  // one item is worth a thread

// A pool whose threads are all busy: runs tasks only when told to.
class BusyPool {
 public:
  int64_t num_threads() const { return 8; }
  template <typename F>
  void Schedule(F f) {
    tasks_.emplace_back(std::move(f));
  }
  void RunAll() {
    for (auto& task : tasks_) task();
  }
  size_t scheduled() const { return tasks_.size(); }

 private:
  std::vector<std::function<void()>> tasks_;
};

TEST(ParallelForTest, CoversEveryItemOnce) {
  for (const int64_t threads : {1, 2, 3, 16}) {
    for (const int64_t size : {0, 1, 2, 3, 7, 8, 9, 31, 32, 33, 1000}) {
      for (const int64_t bytes : {int64_t{1}, kLarge / 64, kLarge}) {
        std::vector<std::atomic<int>> visits(size);
        ThreadedPool pool(threads);
        ParallelFor(pool, size, bytes,
                    [&](int64_t begin, int64_t end) noexcept {
                      EXPECT_LT(begin, end);
                      for (int64_t i = begin; i < end; ++i) ++visits[i];
                    });
        for (const auto& count : visits) EXPECT_EQ(count, 1);
      }
    }
  }
}

TEST(ParallelForTest, BlocksAreEvenAndInBounds) {
  ThreadedPool pool(2);
  std::atomic<int64_t> total = 0;
  const int64_t size = std::numeric_limits<int64_t>::max();
  ParallelFor(pool, size, 1,
              [&](int64_t begin, int64_t end, int64_t worker) noexcept {
                EXPECT_LT(worker, 2);
                EXPECT_GE(end - begin, size / 8);
                EXPECT_LE(end - begin, size / 8 + 1);
                total += end - begin;
              });
  EXPECT_EQ(total, size);
}

TEST(ParallelForTest, SmallLoopsStayOnTheCaller) {
  ThreadedPool pool(8);
  int calls = 0;
  ParallelFor(pool, 1023, kParallelForMinBytes / 1024,
              [&](int64_t, int64_t) noexcept { ++calls; });
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(pool.scheduled(), 0u);
}

TEST(ParallelForTest, FinishesOnABusyPoolAndLateTasksDoNothing) {
  BusyPool pool;
  {
    std::vector<int> visits(100);
    ParallelFor(pool, 100, kLarge, [&](int64_t begin, int64_t end) noexcept {
      for (int64_t i = begin; i < end; ++i) ++visits[i];
    });
    EXPECT_EQ(visits, std::vector<int>(100, 1));
  }
  EXPECT_EQ(pool.scheduled(), 7u);
  pool.RunAll();  // under ASan: `visits` is gone
}

// Less and more than the caller waits without sleeping.
TEST(ParallelForTest, ReturnsWhenTheOtherThreadsAreDone) {
  for (const int milliseconds : {0, 10}) {
    std::atomic<bool> has_come = false;
    std::atomic<int> done = 0;
    {
      ThreadedPool pool(2);
      const auto caller = std::this_thread::get_id();
      ParallelFor(pool, 8, kLarge, [&](int64_t begin, int64_t end) noexcept {
        if (std::this_thread::get_id() == caller) {
          while (!has_come) std::this_thread::yield();
        } else {
          has_come = true;
          std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
        }
        done += static_cast<int>(end - begin);
      });
      EXPECT_EQ(done, 8);
    }
  }
}

TEST(ParallelForTest, TakesACallerWithoutAPool) {
  ThreadedPool none(0);  // the FFI's answer where there is no pool
  EXPECT_EQ(Executor(none).num_threads(), 1);
  EXPECT_EQ(Executor().num_threads(), 1);
  int64_t total = 0;
  ParallelFor(
      Executor(), 100, kLarge,
      [&](int64_t begin, int64_t end) noexcept { total += end - begin; });
  EXPECT_EQ(total, 100);
}

TEST(NumPartsTest, IsLimitedBySizeThreadsAndTheCaller) {
  ThreadedPool pool(3), one(1);
  EXPECT_EQ(NumParts(pool, 1999, 1000), 1);
  EXPECT_EQ(NumParts(one, 1000000, 1000), 1);
  EXPECT_EQ(NumParts(Executor(), 1000000, 1000), 1);
  EXPECT_EQ(NumParts(pool, 1000000, 1000, /*max_parts=*/0), 1);
  EXPECT_EQ(NumParts(pool, 2000, 1000), 2);
  EXPECT_EQ(NumParts(pool, 1000000, 1000), 3 * kPartsPerThread);
  EXPECT_EQ(NumParts(pool, 1000000, 1000, /*max_parts=*/5), 5);
}

TEST(ParallelTasksTest, RunsEachOnce) {
  for (const int64_t threads : {1, 3}) {
    for (const int64_t count : {0, 1, 2, 100}) {
      std::vector<std::atomic<int>> visits(count);
      ThreadedPool pool(threads);
      ParallelTasks(pool, count, [&](int64_t i) noexcept { ++visits[i]; });
      for (const auto& visit : visits) EXPECT_EQ(visit, 1);
      EXPECT_EQ(pool.scheduled(),
                static_cast<size_t>(threads < 2 || count < 2
                                        ? 0
                                        : std::min(threads, count) - 1));
    }
  }
}

// Has threads for some tasks, and then throws as for want of memory.
class PoorPool {
 public:
  explicit PoorPool(int64_t tasks) : left_(tasks), pool_(8) {}
  int64_t num_threads() const { return pool_.num_threads(); }
  template <typename F>
  void Schedule(F f) {
    if (left_-- == 0) throw std::bad_alloc();
    pool_.Schedule(std::move(f));
  }

 private:
  int64_t left_;
  ThreadedPool pool_;
};

TEST(ParallelTasksTest, RunsOnTheThreadsThatThePoolHasMemoryFor) {
  for (int64_t tasks = 0; tasks < 8; ++tasks) {
    std::vector<std::atomic<int>> visits(100);
    PoorPool pool(tasks);
    ParallelTasks(pool, 100, [&](int64_t i) noexcept { ++visits[i]; });
    for (const auto& visit : visits) EXPECT_EQ(visit, 1);
  }
}

TEST(ParallelTasksTest, AWorkerRunsOneTaskAtATime) {
  ThreadedPool pool(4);
  EXPECT_EQ(NumWorkers(pool, 1), 1);
  EXPECT_EQ(NumWorkers(pool, 3), 3);
  ASSERT_EQ(NumWorkers(pool, 100), 4);
  std::atomic<int> running[4] = {}, runs[4] = {};
  ParallelTasks(pool, 100, [&](int64_t, int64_t worker) noexcept {
    EXPECT_EQ(++running[worker], 1);
    ++runs[worker];
    std::this_thread::yield();
    --running[worker];
  });
  EXPECT_EQ(runs[0] + runs[1] + runs[2] + runs[3], 100);
}

TEST(ParallelForTest, NestedLoopsFinish) {
  std::atomic<int64_t> total = 0;
  ThreadedPool outer(4);
  ParallelFor(outer, 32, kLarge, [&](int64_t begin, int64_t end) noexcept {
    ThreadedPool inner(4);
    ParallelFor(inner, end - begin, kLarge,
                [&](int64_t b, int64_t e) noexcept { total += e - b; });
  });
  EXPECT_EQ(total, 32);
}

}  // namespace
}  // namespace xla_ffi_kit
