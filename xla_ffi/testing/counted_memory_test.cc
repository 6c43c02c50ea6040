#include "xla_ffi/testing/counted_memory.h"

#include <cstdlib>
#include <memory>
#include <vector>

#include "gtest/gtest.h"

namespace xla_ffi_kit {
namespace {

TEST(CountedMemoryTest, WhatMallocAndNewGiveIsCounted) {
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
