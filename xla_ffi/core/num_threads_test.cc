#include "xla_ffi/core/num_threads.h"

#include <cstdint>
#include <cstdlib>

#include "gtest/gtest.h"

namespace xla_ffi_kit {
namespace {

struct Pool {
  int64_t num_threads() const { return 8; }
};

int64_t With(const char* value) {
  setenv(kThreadsVariable, value, /*overwrite=*/1);
  Pool pool;
  const int64_t threads = NumThreads(pool);
  unsetenv(kThreadsVariable);
  return threads;
}

TEST(NumThreadsTest, IsThePoolsByDefault) {
  Pool pool;
  EXPECT_EQ(NumThreads(pool), 8);
}

TEST(NumThreadsTest, TheVariableIsALimit) {
  EXPECT_EQ(With("1"), 1);
  EXPECT_EQ(With("3"), 3);
  EXPECT_EQ(With("100"), 8);
}

TEST(NumThreadsTest, WhatIsNoLimitIsIgnored) {
  EXPECT_EQ(With("0"), 8);
  EXPECT_EQ(With("-2"), 8);
  EXPECT_EQ(With("many"), 8);
  EXPECT_EQ(With(""), 8);
}

}  // namespace
}  // namespace xla_ffi_kit
