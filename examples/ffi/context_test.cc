// The examples of state, threads, effects and contexts, with call frames.

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>
#include <thread>  // NOLINT
#include <vector>

#include "examples/ffi/user_data.h"
#include "gtest/gtest.h"
#include "xla/ffi/api/ffi.h"
#include "xla_ffi/core/handler_table.h"
#include "xla_ffi/testing/call_frame.h"
#include "xla_ffi/testing/thread_sanitizer.h"

XLA_FFI_DECLARE_HANDLER_SYMBOL(ExampleCounterExecute);
XLA_FFI_DECLARE_HANDLER_SYMBOL(ExampleCounterInstantiate);
XLA_FFI_DECLARE_HANDLER_SYMBOL(ExampleLater);
XLA_FFI_DECLARE_HANDLER_SYMBOL(ExampleLiveCounters);
XLA_FFI_DECLARE_HANDLER_SYMBOL(ExampleLog);
XLA_FFI_DECLARE_HANDLER_SYMBOL(ExampleParallelSquare);
XLA_FFI_DECLARE_HANDLER_SYMBOL(ExampleRandomExecute);
XLA_FFI_DECLARE_HANDLER_SYMBOL(ExampleRandomInstantiate);
XLA_FFI_DECLARE_HANDLER_SYMBOL(ExampleReadLog);
XLA_FFI_DECLARE_HANDLER_SYMBOL(ExampleRunId);
XLA_FFI_DECLARE_HANDLER_SYMBOL(ExampleScratch);
XLA_FFI_DECLARE_HANDLER_SYMBOL(ExampleStagesExecute);
XLA_FFI_DECLARE_HANDLER_SYMBOL(ExampleStagesInitialize);
XLA_FFI_DECLARE_HANDLER_SYMBOL(ExampleStagesInstantiate);
XLA_FFI_DECLARE_HANDLER_SYMBOL(ExampleStagesPrepare);
XLA_FFI_DECLARE_HANDLER_SYMBOL(ExampleTag);

// Generated from `types` in the BUILD file, as XLA_FFI_KIT_DEFINE_TYPE defines.
extern "C" const XlaFfiKit_HandlerTable* ffi_examples_handler_table();

namespace ffi_examples {
namespace {

using ::xla_ffi_kit::testing::CallFrame;
using ::xla_ffi_kit::testing::GetMetadata;
using ::xla_ffi_kit::testing::HandlerState;
using ::xla_ffi_kit::testing::kIsThreadSanitizer;
using ::xla_ffi_kit::testing::RegisterType;
using ::xla_ffi_kit::testing::Status;

constexpr auto kInstantiate = XLA_FFI_ExecutionStage_INSTANTIATE;

class WithTypesTest : public ::testing::Test {
 protected:
  WithTypesTest() {
    const XlaFfiKit_HandlerTable* table = ffi_examples_handler_table();
    EXPECT_EQ(table->num_types, 4u);
    for (size_t i = 0; i < table->num_types; ++i) {
      const XlaFfiKit_Type& type = table->types[i];
      EXPECT_TRUE(RegisterType(type.name, type.type_id, type.type_info).ok());
    }
  }

  static Status MakeCounter(HandlerState& state, int32_t start) {
    return CallFrame()
        .State(state)
        .Attr("start", start)
        .Run(ExampleCounterInstantiate, kInstantiate);
  }

  static int32_t Count(HandlerState& state) {
    std::vector<int32_t> count(1);
    EXPECT_EQ(CallFrame()
                  .State(state)
                  .Ret(count, {})
                  .Attr("start", int32_t{0})
                  .Run(ExampleCounterExecute)
                  .message,
              "");
    return count[0];
  }

  static int32_t Live() {
    std::vector<int32_t> live(1);
    EXPECT_TRUE(CallFrame().Ret(live, {}).Run(ExampleLiveCounters).ok());
    return live[0];
  }
};

using CounterTest = WithTypesTest;
using RandomTest = WithTypesTest;
using StagesTest = WithTypesTest;
using UserDataTest = WithTypesTest;

TEST_F(CounterTest, LivesAndDiesWithItsOwner) {
  {
    HandlerState one, other, failed;
    EXPECT_TRUE(MakeCounter(one, 10).ok());
    EXPECT_TRUE(MakeCounter(other, 0).ok());
    EXPECT_EQ(MakeCounter(failed, -1).message,
              "examples.counter: attribute start: expected a value >= 0, got "
              "-1");
    EXPECT_EQ(Live(), 2);
    EXPECT_EQ(Count(one), 10);
    EXPECT_EQ(Count(one), 11);
    EXPECT_EQ(Count(other), 0);
  }
  EXPECT_EQ(Live(), 0);
}

TEST_F(CounterTest, ThreadsCountTogether) {
  HandlerState state;
  ASSERT_TRUE(MakeCounter(state, 0).ok());
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&state] {
      for (int j = 0; j < 100; ++j) Count(state);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(Count(state), 400);
}

TEST_F(CounterTest, MetadataNamesItsType) {
  EXPECT_GT(GetMetadata(ExampleCounterInstantiate).state_type_id, 0);
  EXPECT_EQ(GetMetadata(ExampleCounterExecute).state_type_id, 0);
}

TEST_F(RandomTest, GoesOnAndDiffersByCall) {
  HandlerState one, other;
  for (HandlerState* state : {&one, &other}) {
    ASSERT_TRUE(CallFrame()
                    .State(*state)
                    .Attr("seed", int64_t{7})
                    .Run(ExampleRandomInstantiate, kInstantiate)
                    .ok());
  }
  const auto draw = [](HandlerState& state) {
    std::vector<float> y(1000, -1);
    EXPECT_TRUE(
        CallFrame().State(state).Ret(y, {1000}).Run(ExampleRandomExecute).ok());
    return y;
  };
  const std::vector<float> first = draw(one);
  EXPECT_NE(first, draw(one));
  EXPECT_NE(first, draw(other));
  const auto [least, most] = std::minmax_element(first.begin(), first.end());
  EXPECT_GE(*least, 0);
  EXPECT_LT(*most, 1);
  EXPECT_NEAR(std::accumulate(first.begin(), first.end(), 0.0) / 1000, 0.5,
              0.05);
}

TEST_F(StagesTest, AllFour) {
  HandlerState state;
  CallFrame frame = CallFrame().State(state);
  ASSERT_TRUE(frame.Run(ExampleStagesInstantiate, kInstantiate).ok());
  std::vector<int32_t> y(4);
  for (int32_t run = 1; run <= 2; ++run) {
    EXPECT_TRUE(
        frame.Run(ExampleStagesPrepare, XLA_FFI_ExecutionStage_PREPARE).ok());
    EXPECT_TRUE(
        frame.Run(ExampleStagesInitialize, XLA_FFI_ExecutionStage_INITIALIZE)
            .ok());
    EXPECT_TRUE(
        CallFrame().State(state).Ret(y, {4}).Run(ExampleStagesExecute).ok());
    EXPECT_EQ(y, (std::vector<int32_t>{1, run, run, run}));
  }
  EXPECT_EQ(frame.Run(ExampleStagesPrepare).message,
            "Wrong execution stage: expected `prepare` but got `execute`");
}

TEST_F(UserDataTest, OfTheCallThatCarriesIt) {
  RequestTag request = {42};
  std::vector<int64_t> tag(1);
  EXPECT_TRUE(CallFrame().UserData(&request).Ret(tag, {}).Run(ExampleTag).ok());
  EXPECT_EQ(tag[0], 42);
  EXPECT_EQ(CallFrame().Ret(tag, {}).Run(ExampleTag).code,
            XLA_FFI_Error_Code_INVALID_ARGUMENT);
}

TEST(ThreadPoolTest, WithAndWithoutOne) {
  std::vector<double> x(300'000), y(x.size());
  std::iota(x.begin(), x.end(), 0.0);
  for (const int64_t threads : {0, 1, 3}) {
    std::fill(y.begin(), y.end(), -1.0);
    EXPECT_TRUE(CallFrame()
                    .Arg(x, {300'000})
                    .Ret(y, {300'000})
                    .Threads(threads)
                    .Run(ExampleParallelSquare)
                    .ok());
    for (size_t i = 0; i < x.size(); ++i) ASSERT_EQ(y[i], x[i] * x[i]);
  }
}

TEST(FutureTest, PartsAndErrors) {
  std::vector<double> x(1001, 3), y(1001);
  CallFrame frame = CallFrame().Arg(x, {1001}).Ret(y, {1001});
  // Each part is a thread of its own: a thousand take ThreadSanitizer long.
  for (const int64_t parts : {1, 4, kIsThreadSanitizer ? 64 : 1024}) {
    std::fill(y.begin(), y.end(), 0.0);
    EXPECT_EQ(frame.Attr("parts", parts).Run(ExampleLater).message, "");
    EXPECT_EQ(y, std::vector<double>(1001, 6));
  }
  x[1000] = -1;
  const Status status = frame.Attr("parts", int64_t{4}).Run(ExampleLater);
  EXPECT_EQ(status.code, XLA_FFI_Error_Code_OUT_OF_RANGE);
  EXPECT_EQ(status.message,
            "examples.later: operand x: expected elements >= 0, got a negative "
            "one at 1000");
  EXPECT_FALSE(frame.Attr("parts", int64_t{0}).Run(ExampleLater).ok());
  std::vector<double> none;
  EXPECT_TRUE(CallFrame()
                  .Arg(none, {0})
                  .Ret(none, {0})
                  .Attr("parts", int64_t{2})
                  .Run(ExampleLater)
                  .ok());
}

TEST(SideEffectTest, LogsEachCallInOrder) {
  std::vector<int32_t> x(1), y(1), count(1), last(8);
  for (int32_t i = 1; i <= 9; ++i) {
    x[0] = i;
    EXPECT_TRUE(CallFrame().Arg(x, {}).Ret(y, {}).Run(ExampleLog).ok());
    EXPECT_EQ(y, x);
  }
  EXPECT_TRUE(
      CallFrame().Ret(count, {}).Ret(last, {8}).Run(ExampleReadLog).ok());
  EXPECT_EQ(count[0], 9);
  EXPECT_EQ(last, (std::vector<int32_t>{2, 3, 4, 5, 6, 7, 8, 9}));
}

TEST(ScratchTest, AsMuchAsThereIs) {
  std::vector<int32_t> given(1);
  CallFrame frame = CallFrame()
                        .Ret(given, {})
                        .Attr("count", int32_t{5})
                        .Attr("size", int64_t{100});
  EXPECT_TRUE(frame.Run(ExampleScratch).ok());
  EXPECT_EQ(given[0], 0);
  EXPECT_TRUE(frame.Scratch(350).Run(ExampleScratch).ok());
  EXPECT_EQ(given[0], 3);
}

TEST(RunIdTest, OfTheCall) {
  std::vector<int64_t> run(1);
  std::vector<int32_t> device(1);
  EXPECT_TRUE(CallFrame()
                  .Ret(run, {})
                  .Ret(device, {})
                  .RunId(1LL << 40)
                  .DeviceOrdinal(3)
                  .Run(ExampleRunId)
                  .ok());
  EXPECT_EQ(run[0], 1LL << 40);
  EXPECT_EQ(device[0], 3);
}

}  // namespace
}  // namespace ffi_examples
