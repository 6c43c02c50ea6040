// The most memory that any handler allocates during a call.

#include <cstddef>
#include <cstdint>

#include "gtest/gtest.h"
#include "xla_ffi/core/handler_table.h"
#include "xla_ffi/testing/counted_memory.h"
#include "xla_ffi/testing/handlers/handler_calls.h"

extern "C" const XlaFfiKit_HandlerTable* XLA_FFI_KIT_HANDLER_TABLE();

namespace xla_ffi_kit {
namespace {

constexpr int64_t kThreads = testing::kHandlerCallThreads;
// Of a thread, whatever the operands; the call frame's own is in it.
constexpr int64_t kOfThreads = kThreads * (int64_t{64} << 10);
// Large scratch is rounded up to huge pages (host_scratch.h), and malloc keeps
// what is left of aligning it.
constexpr int64_t kLarge = int64_t{4} << 20, kOfHugePages = int64_t{4} << 20;

TEST(ScratchBoundsTest, HoldForEveryHandler) {
  if (!testing::kCountsMemory) GTEST_SKIP() << "a sanitizer allocates";
  auto all = testing::HandlerCalls(1'000'000);
  const XlaFfiKit_HandlerTable* table = XLA_FFI_KIT_HANDLER_TABLE();
  ASSERT_GT(table->num_handlers, 0u);
  for (size_t i = 0; i < table->num_handlers; ++i) {
    const XlaFfiKit_Handler& handler = table->handlers[i];
    SCOPED_TRACE(handler.name);
    ASSERT_TRUE(all.count(handler.name)) << "has no call in HandlerCalls()";
    for (testing::HandlerCall& c : all[handler.name]) {
      c.frame.Threads(kThreads);
      const int64_t of_pages = c.scratch >= kLarge ? kOfHugePages : 0;
      EXPECT_LE(testing::PeakOfCall(handler.execute, c.frame),
                c.scratch + kOfThreads + of_pages)
          << "case " << &c - all[handler.name].data();
    }
  }
}

}  // namespace
}  // namespace xla_ffi_kit
