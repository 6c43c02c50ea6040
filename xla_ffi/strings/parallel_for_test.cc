// kit::Threads on the parallel loop of the kit's library.

#include <atomic>
#include <chrono>  // NOLINT
#include <cstdint>
#include <stdexcept>
#include <thread>  // NOLINT
#include <vector>

#include "gtest/gtest.h"
#include "xla_ffi/strings/kit.h"
#include "xla_ffi/testing/call_frame.h"

namespace {

std::atomic<int> other_threads = 0;

void Loop(kit::Threads threads, kit::Out<int32_t> y) {
  const std::thread::id caller = std::this_thread::get_id();
  threads.For(y.size(), 1 << 20, [&](int64_t begin, int64_t end) {
    if (std::this_thread::get_id() != caller) ++other_threads;
    // Long enough for the other threads to come.
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    if (begin == 0 && y.rank() == 2) throw std::runtime_error("part failed");
    for (int64_t i = begin; i < end; ++i) y[i] = static_cast<int32_t>(i);
  });
}

}  // namespace

KIT_DEFINE_HANDLER(LoopHandler, "", "", Loop);

namespace xla_ffi_kit {
namespace {

using testing::CallFrame;

TEST(ParallelForTest, PartsRunOnOtherThreads) {
  std::vector<int32_t> y(64);
  ASSERT_TRUE(CallFrame().Ret(y, {64}).Threads(4).Run(LoopHandler).ok());
  for (int32_t i = 0; i < 64; ++i) EXPECT_EQ(y[i], i);
  EXPECT_GT(other_threads, 0);
}

TEST(ParallelForTest, AnExceptionOfAPartIsTheCallsError) {
  std::vector<int32_t> y(64);
  EXPECT_EQ(CallFrame().Ret(y, {8, 8}).Threads(4).Run(LoopHandler).message,
            "LoopHandler: part failed");
}

TEST(ParallelForTest, WithoutAPoolTheCallerRunsIt) {
  std::vector<int32_t> y(3);
  EXPECT_TRUE(CallFrame().Ret(y, {3}).Threads(0).Run(LoopHandler).ok());
  EXPECT_EQ(y[2], 2);
}

}  // namespace
}  // namespace xla_ffi_kit
