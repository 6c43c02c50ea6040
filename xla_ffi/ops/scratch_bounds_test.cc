// The most memory that any handler of the kit allocates during a call, as
// docs/accelerate.md promises it to users.

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

#include "gtest/gtest.h"
#include "xla_ffi/core/handler_table.h"
#include "xla_ffi/ops/counted_memory.h"
#include "xla_ffi/ops/handler_calls.h"
#include "xla_ffi/registry/registry.h"

namespace xla_ffi_kit {
namespace {

constexpr int64_t kThreads = testing::kHandlerCallThreads;
// Of a thread, whatever the operands; the call frame's own is in it.
constexpr int64_t kOfThreads = kThreads * (int64_t{64} << 10);
// Large scratch is rounded up to huge pages (host_scratch.h), and malloc keeps
// what is left of aligning it.
constexpr int64_t kLarge = int64_t{4} << 20, kOfHugePages = int64_t{4} << 20;

TEST(ScratchBoundsTest, HoldForEveryHandlerOfTheKit) {
  if (!testing::kCountsMemory) GTEST_SKIP() << "a sanitizer allocates";
  auto all = testing::HandlerCalls(1'000'000);
  const XlaFfiKit_HandlerTable* table = XlaFfiKit_CpuHandlerTable();
  ASSERT_GT(table->num_handlers, 0u);
  for (size_t i = 0; i < table->num_handlers; ++i) {
    const XlaFfiKit_Handler& handler = table->handlers[i];
    SCOPED_TRACE(handler.name);
    ASSERT_TRUE(all.count(handler.name)) << "has no case in this test";
    for (testing::HandlerCall& c : all[handler.name]) {
      c.frame.Threads(kThreads);
      const int64_t of_pages = c.scratch >= kLarge ? kOfHugePages : 0;
      EXPECT_LE(testing::PeakOfCall(handler.execute, c.frame),
                c.scratch + kOfThreads + of_pages)
          << "case " << &c - all[handler.name].data();
    }
  }
}

TEST(ScratchBoundsTest, WhatMallocAndNewGiveIsCounted) {
  if (!testing::kCountsMemory) GTEST_SKIP() << "a sanitizer allocates";
  const testing::PeakMemory peak;
  {
    const auto bytes = std::make_unique<std::vector<char>>(1000);
    void* volatile aligned = std::aligned_alloc(64, 64'000);  // not elided
    std::free(aligned);
  }
  EXPECT_GE(peak.bytes(), 65'000);
  EXPECT_LE(peak.bytes(), 66'000);
  const testing::PeakMemory later;
  EXPECT_EQ(later.bytes(), 0);
}

}  // namespace
}  // namespace xla_ffi_kit
