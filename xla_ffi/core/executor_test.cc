#include "xla_ffi/core/executor.h"

#include <cstdint>

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
  const auto run = [](void* data) { ++*static_cast<int*>(data); };
  const Executor executor = pool;
  executor.Schedule(run, &runs);
  const Executor copy = executor;
  copy.Schedule(run, &runs);
  EXPECT_EQ(runs, 2);
  EXPECT_EQ(pool.scheduled, 2);
}

}  // namespace
}  // namespace xla_ffi_kit
