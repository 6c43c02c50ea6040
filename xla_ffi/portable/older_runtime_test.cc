// The definitions of older_runtime.cc, which take the place of the standard
// library's in this program.

#include <dlfcn.h>

#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <new>
#include <sstream>
#include <string>
#include <thread>

#include "gtest/gtest.h"

namespace {

TEST(OlderRuntimeTest, ConditionVariableWaitsUntilNotified) {
  std::mutex mutex;
  std::condition_variable changed;
  int turn = 0;
  auto play = [&](int player) {
    for (int i = 0; i < 100; ++i) {
      std::unique_lock<std::mutex> lock(mutex);
      while (turn % 2 != player) changed.wait(lock);
      EXPECT_TRUE(lock.owns_lock());
      ++turn;
      changed.notify_one();
    }
  };
  std::thread other(play, 1);
  play(0);
  other.join();
  EXPECT_EQ(turn, 200);
}

TEST(OlderRuntimeTest, StringStreamReadsWhatWasWritten) {
  std::stringstream stream;
  stream << "rank " << 3;
  std::string word;
  int number = 0;
  stream >> word >> number;
  EXPECT_EQ(word, "rank");
  EXPECT_EQ(number, 3);
}

TEST(OlderRuntimeTest, ArrayOfNegativeLengthThrows) {
  volatile std::ptrdiff_t length = -1;
  EXPECT_THROW(delete[] new double[length], std::bad_array_new_length);
}

// Otherwise the tests above would pass without the file that they test.
TEST(OlderRuntimeTest, TheDefinitionsAreThisProgramsOwn) {
  for (const char* name :
       {"_ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE",
        "_ZNSt7__cxx1118basic_stringstreamIcSt11char_traitsIcESaIcEEC1Ev"}) {
    void* symbol = dlsym(RTLD_DEFAULT, name);
    ASSERT_NE(symbol, nullptr) << name;
    Dl_info found, own;
    ASSERT_NE(dladdr(symbol, &found), 0);
    ASSERT_NE(
        dladdr(reinterpret_cast<void*>(&testing::UnitTest::GetInstance), &own),
        0);
    EXPECT_EQ(found.dli_fbase, own.dli_fbase) << name;
  }
}

}  // namespace
