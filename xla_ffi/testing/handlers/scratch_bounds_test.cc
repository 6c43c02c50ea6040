// The most memory that any handler allocates during a call.

#include <cstdint>

#include "gtest/gtest.h"
#include "xla_ffi/testing/counted_memory.h"
#include "xla_ffi/testing/frame_memory.h"
#include "xla_ffi/testing/frames.h"
#include "xla_ffi/testing/handlers/handlers.h"

namespace xla_ffi_kit::testing {
namespace {

constexpr int64_t kElements = 1'000'000;
constexpr uint32_t kCallsOfForm = 3;
constexpr int64_t kThreads = kScratchThreads;
// Of a thread, whatever the operands; the call frame's own is in it.
constexpr int64_t kOfThreads = kThreads * (int64_t{64} << 10);
// Large scratch is rounded up to huge pages (host_scratch.h), and malloc keeps
// what is left of aligning it.
constexpr int64_t kLarge = int64_t{4} << 20, kOfHugePages = int64_t{4} << 20;

TEST(ScratchBoundsTest, HoldForEveryHandler) {
  if (!kCountsMemory) GTEST_SKIP() << "a sanitizer allocates";
  ForEachHandler([](const HandlerUnderTest& h) {
    for (const Form form : kForms) {
      for (uint32_t seed = 0; seed < kCallsOfForm; ++seed) {
        Choices choices(seed);
        CallFrame frame = h.FitLarge(choices, kElements, form);
        const FrameMemory memory = h.GiveMemory(frame);
        frame.Threads(kThreads);
        const int64_t scratch =
            h.hook().scratch == nullptr ? 0 : h.hook().scratch(frame);
        const int64_t of_pages = scratch >= kLarge ? kOfHugePages : 0;
        EXPECT_LE(PeakOfCall(h.execute(), frame),
                  scratch + kOfThreads + of_pages)
            << "form " << static_cast<int>(form) << ", call " << seed;
      }
    }
  });
}

}  // namespace
}  // namespace xla_ffi_kit::testing
