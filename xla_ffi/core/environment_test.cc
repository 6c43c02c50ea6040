#include "xla_ffi/core/environment.h"

#include <cstdint>
#include <cstdlib>
#include <limits>

#include "gtest/gtest.h"
#include "xla_ffi/core/executor.h"

namespace xla_ffi_kit {
namespace {

struct Pool {
  int64_t num_threads() const { return 8; }
  template <typename F>
  void Schedule(F f) {
    f();
  }
};

int64_t Threads() {
  Pool pool;
  return Executor(pool).num_threads();
}

TEST(EnvironmentTest, AThreadLimitIsOneOrMore) {
  using environment_internal::ToThreadLimit;
  constexpr int64_t kNone = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(ToThreadLimit("1"), 1);
  EXPECT_EQ(ToThreadLimit("100"), 100);
  for (const char* none : {"0", "-2", "many", "", (const char*)nullptr}) {
    EXPECT_EQ(ToThreadLimit(none), kNone);
  }
}

TEST(EnvironmentTest, OnlyZeroSwitchesOff) {
  using environment_internal::IsSwitchedOn;
  EXPECT_FALSE(IsSwitchedOn("0"));
  for (const char* on : {"1", "", "no", (const char*)nullptr}) {
    EXPECT_TRUE(IsSwitchedOn(on));
  }
}

// The BUILD file runs this with both variables set, and with neither.
TEST(EnvironmentTest, IsThatOfTheStart) {
  const bool is_set = std::getenv("EXPECTS_VARIABLES") != nullptr;
  EXPECT_EQ(Threads(), is_set ? 3 : 8);
  EXPECT_EQ(UsesHugePages(), !is_set);
  setenv(kThreadsVariable, "2", /*overwrite=*/1);
  setenv(kHugePagesVariable, is_set ? "1" : "0", /*overwrite=*/1);
  EXPECT_EQ(Threads(), is_set ? 3 : 8);
  EXPECT_EQ(UsesHugePages(), !is_set);
}

}  // namespace
}  // namespace xla_ffi_kit
