#include "xla_ffi/core/executor.h"

#include <cstdint>
#include <new>

#include "gtest/gtest.h"

namespace xla_ffi_kit {
namespace {

// Runs what is scheduled at once.
struct Pool {
  int64_t num_threads() const { return threads; }
  template <typename F>
  void Schedule(F f) {
    ++scheduled;
    f();
  }
  int64_t threads = 8;
  int scheduled = 0;
};

struct ThrowingPool {
  int64_t num_threads() const { return 8; }
  template <typename F>
  void Schedule(F) {
    throw std::bad_alloc();
  }
};

TEST(ExecutorTest, HasThePoolsThreadsByDefault) {
  Pool pool;
  EXPECT_EQ(Executor(pool).num_threads(), 8);
  pool.threads = 0;  // FFI's answer where there is no pool
  EXPECT_EQ(Executor(pool).num_threads(), 1);
  EXPECT_EQ(Executor().num_threads(), 1);
}

TEST(ExecutorTest, SchedulesOnThePoolAndSoDoesACopy) {
  Pool pool;
  int runs = 0;
  const auto run = [](void* data) noexcept { ++*static_cast<int*>(data); };
  const Executor executor = pool;
  EXPECT_TRUE(executor.Schedule(run, &runs));
  const Executor copy = executor;
  EXPECT_TRUE(copy.Schedule(run, &runs));
  EXPECT_EQ(runs, 2);
  EXPECT_EQ(pool.scheduled, 2);
}

TEST(ExecutorTest, SaysWhereThePoolThrows) {
  ThrowingPool pool;
  int runs = 0;
  EXPECT_FALSE(Executor(pool).Schedule([](void*) noexcept {}, &runs));
}

}  // namespace
}  // namespace xla_ffi_kit
