// Arrays without elements, of dimensions whose product 64 bits do not hold:
// every handler takes or refuses them, and does so at once.

#include <cstdint>

#include "gtest/gtest.h"
#include "xla_ffi/testing/call_frame.h"
#include "xla_ffi/testing/frame_memory.h"
#include "xla_ffi/testing/frames.h"
#include "xla_ffi/testing/handlers/handlers.h"

namespace xla_ffi_kit::testing {
namespace {

constexpr uint32_t kCalls = 200;
// Of an array that is not empty. One of more has none, and is refused.
constexpr size_t kBytes = 1 << 12;

TEST(EmptyArraysTest, AreTakenAtOnceOrRefused) {
  ForEachHandler([](const HandlerUnderTest& h) {
    int taken = 0;
    for (uint32_t seed = 0; seed < kCalls; ++seed) {
      Choices choices(seed);
      CallFrame frame = h.FitEmpty(choices);
      const FrameMemory memory(frame, kBytes);
      for (const int64_t threads : {1, 3}) {
        const Status status = h.Run(frame, threads);
        EXPECT_TRUE(status.ok() ||
                    status.code == XLA_FFI_Error_Code_INVALID_ARGUMENT)
            << status.message;
        taken += status.ok();
      }
      EXPECT_EQ(memory.Violation(), "");
    }
    EXPECT_GT(taken, static_cast<int>(kCalls / 10));
  });
}

}  // namespace
}  // namespace xla_ffi_kit::testing
