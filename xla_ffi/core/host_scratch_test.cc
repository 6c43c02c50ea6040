#include "xla_ffi/core/host_scratch.h"

#include <cstdint>
#include <cstring>
#include <limits>

#include "gtest/gtest.h"

namespace xla_ffi_kit {
namespace {

TEST(HostScratchTest, IsAlignedAndWritable) {
  for (const int64_t n : {0, 1, 1000, 5 << 20}) {
    const HostScratch<uint32_t> scratch(n);
    ASSERT_NE(scratch.get(), nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(scratch.get()) % 64, 0u);
    std::memset(scratch.get(), 1, n * sizeof(uint32_t));
  }
}

TEST(HostScratchTest, IsNullWhereThereIsNoMemory) {
  EXPECT_EQ(HostScratch<uint64_t>(int64_t{1} << 60).get(), nullptr);
  EXPECT_EQ(HostScratch<uint64_t>(std::numeric_limits<int64_t>::max()).get(),
            nullptr);
}

}  // namespace
}  // namespace xla_ffi_kit
