// The definitions of older_runtime.cc, which take the place of the standard
// library's in this program.

#include <dlfcn.h>

#include <cmath>
#include <condition_variable>
#include <cstddef>
#include <cstring>
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

// Whether the function or variable at this address is in this program itself.
bool IsOwn(const void* address) {
  Dl_info found, own;
  return dladdr(address, &found) != 0 &&
         dladdr(reinterpret_cast<void*>(&testing::UnitTest::GetInstance),
                &own) != 0 &&
         found.dli_fbase == own.dli_fbase;
}

// Bit for bit those of the C library but for a NaN's sign, and not the C
// library's.
template <typename T>
void ExpectSame(T (*function)(T), const char* name) {
  EXPECT_TRUE(IsOwn(reinterpret_cast<void*>(function))) << name;
  const auto theirs = reinterpret_cast<T (*)(T)>(dlsym(RTLD_NEXT, name));
  ASSERT_NE(theirs, nullptr) << name;
  for (T x = T{-800}; x < 800; x += T{0.37}) {
    const T got = function(x), want = theirs(x);
    EXPECT_TRUE(std::memcmp(&got, &want, sizeof(T)) == 0 ||
                (std::isnan(got) && std::isnan(want)))
        << name << " of " << x;
  }
}

TEST(OlderRuntimeTest, MathIsThatOfTheCLibrary) {
  ExpectSame<double>(std::exp, "exp");
  ExpectSame<float>(std::exp, "expf");
  ExpectSame<double>(std::exp2, "exp2");
  ExpectSame<float>(std::exp2, "exp2f");
  ExpectSame<double>(std::log, "log");
  ExpectSame<float>(std::log, "logf");
  ExpectSame<double>(std::log2, "log2");
  ExpectSame<float>(std::log2, "log2f");
  volatile double two = 2, three = 3, four = 4;
  EXPECT_EQ(std::pow(two, three), 8);
  EXPECT_EQ(std::hypot(three, four), 5);
}

// Otherwise the tests above would pass without the file that they test.
TEST(OlderRuntimeTest, TheDefinitionsAreThisProgramsOwn) {
  for (const char* name :
       {"_ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE",
        "_ZNSt7__cxx1118basic_stringstreamIcSt11char_traitsIcESaIcEEC1Ev"}) {
    void* symbol = dlsym(RTLD_DEFAULT, name);
    ASSERT_NE(symbol, nullptr) << name;
    EXPECT_TRUE(IsOwn(symbol)) << name;
  }
}

}  // namespace
