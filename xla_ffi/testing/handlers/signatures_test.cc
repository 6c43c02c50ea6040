// What the handlers of a library say of themselves is what they do.

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "xla_ffi/testing/call_frame.h"
#include "xla_ffi/testing/frame_memory.h"
#include "xla_ffi/testing/frames.h"
#include "xla_ffi/testing/handlers/handlers.h"

namespace xla_ffi_kit::testing {
namespace {

// As many as it takes to choose each dtype of the longest list.
constexpr uint32_t kCalls = 300;
constexpr uint32_t kCallsWithMistakes = 20;

using Dtypes = std::set<std::pair<const XlaFfiKit_Argument*, int32_t>>;

TEST(SignaturesTest, AreWhole) {
  ForEachHandler([](const HandlerUnderTest& h) {
    EXPECT_STREQ(h.signature().operation, h.name());
    const Metadata metadata = GetMetadata(h.execute());
    EXPECT_EQ(metadata.status.message, "");
    EXPECT_EQ(metadata.major_version, XLA_FFI_API_MAJOR);
    EXPECT_EQ(metadata.minor_version, XLA_FFI_API_MINOR);
    const size_t arguments =
        h.signature().num_operands + h.signature().num_results;
    for (size_t i = 0; i < arguments; ++i) {
      const XlaFfiKit_Argument& argument = h.signature().arguments[i];
      EXPECT_LT(argument.dtype_of, static_cast<int32_t>(i)) << argument.name;
      EXPECT_LT(argument.shape_of, static_cast<int32_t>(i)) << argument.name;
    }
    for (size_t i = 1; i < h.signature().num_attributes; ++i) {
      EXPECT_LT(std::string_view(h.signature().attributes[i - 1].name),
                h.signature().attributes[i].name);
    }
  });
}

TEST(SignaturesTest, CallsThatFitAreAcceptedWithEveryDtype) {
  ForEachHandler([](const HandlerUnderTest& h) {
    Dtypes accepted;
    for (uint32_t seed = 0; seed < kCalls; ++seed) {
      Choices choices(seed);
      CallFrame frame = h.Fit(choices);
      const FrameMemory memory = h.GiveMemory(frame);
      ASSERT_EQ(h.Run(frame).message, "") << "call " << seed;
      ASSERT_EQ(memory.Violation(), "") << "call " << seed;
      for (const auto& b : DescribedBuffers(h.signature(), frame)) {
        accepted.insert({b.argument, b.In(frame).dtype});
      }
    }
    for (size_t i = 0;
         i < h.signature().num_operands + h.signature().num_results; ++i) {
      const XlaFfiKit_Argument& argument = h.signature().arguments[i];
      for (size_t j = 0; j < argument.num_dtypes && argument.dtype_of < 0;
           ++j) {
        EXPECT_EQ(accepted.count({&argument, argument.dtypes[j]}), 1u)
            << argument.name << " of dtype " << argument.dtypes[j];
      }
    }
  });
}

TEST(SignaturesTest, AnyOtherIsRefused) {
  ForEachHandler([](const HandlerUnderTest& h) {
    const std::string name = std::string(h.name()) + ": ";
    for (uint32_t seed = 0; seed < kCallsWithMistakes; ++seed) {
      Choices choices(seed);
      CallFrame good = h.Fit(choices);
      const FrameMemory memory = h.GiveMemory(good);
      const std::string results = memory.Results();
      for (Mistake& mistake : Mistakes(h.signature(), good)) {
        const Status status = h.Run(mistake.frame);
        ASSERT_EQ(status.code, XLA_FFI_Error_Code_INVALID_ARGUMENT)
            << mistake.what << ", call " << seed;
        EXPECT_EQ(status.message.substr(0, name.size()), name) << mistake.what;
        ASSERT_TRUE(memory.Violation().empty() && memory.Results() == results)
            << mistake.what << ": wrote to an array";
      }
    }
  });
}

// Some dimensions have a product that 64 bits do not hold. An array that takes
// more than kBytes has no memory, and is refused.
TEST(SignaturesTest, ArraysWithoutElementsAreTakenAtOnceOrRefused) {
  constexpr uint32_t kEmptyCalls = 200;
  constexpr size_t kBytes = 1 << 12;
  ForEachHandler([](const HandlerUnderTest& h) {
    int successes = 0;
    for (uint32_t seed = 0; seed < kEmptyCalls; ++seed) {
      Choices choices(seed);
      CallFrame frame = h.FitEmpty(choices);
      const FrameMemory memory(frame, kBytes);
      for (const int64_t threads : {1, 3}) {
        const Status status = h.Run(frame, threads);
        EXPECT_TRUE(status.ok() ||
                    status.code == XLA_FFI_Error_Code_INVALID_ARGUMENT)
            << status.message;
        successes += status.ok();
      }
      EXPECT_EQ(memory.Violation(), "");
    }
    EXPECT_GT(successes, static_cast<int>(kEmptyCalls / 10));
  });
}

}  // namespace
}  // namespace xla_ffi_kit::testing
