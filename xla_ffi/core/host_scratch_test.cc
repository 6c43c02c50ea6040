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

TEST(HostScratchTest, SaysHowMuchIsMissing) {
  EXPECT_TRUE(HostScratch<uint64_t>(10).status());
  const ScratchStatus missing =
      HostScratch<uint64_t>(int64_t{1} << 59).status();
  EXPECT_FALSE(missing);
  EXPECT_EQ(missing.missing_bytes, int64_t{1} << 62);
  EXPECT_EQ(HostScratch<uint64_t>().get(), nullptr);
}

TEST(WorkerScratchTest, WorkersShareNoCacheLine) {
  for (const int64_t n : {1, 7, 8, 9, 1000}) {
    const WorkerScratch<uint64_t> scratch(3, n);
    ASSERT_TRUE(scratch.status());
    for (int64_t worker = 0; worker < 3; ++worker) {
      EXPECT_EQ(reinterpret_cast<uintptr_t>(scratch.of(worker)) % 64, 0u);
      std::memset(scratch.of(worker), static_cast<int>(worker), n * 8);
    }
    EXPECT_GE(scratch.of(1) - scratch.of(0), n);
    EXPECT_GE(scratch.of(2) - scratch.of(1), n);
    EXPECT_EQ(scratch.of(1)[n - 1], 0x0101010101010101u);
  }
}

TEST(WorkerScratchTest, ProductsDoNotOverflow) {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  EXPECT_FALSE(WorkerScratch<uint64_t>(3, kMax).status());
  EXPECT_FALSE(WorkerScratch<char>(1, kMax).status());
  EXPECT_FALSE(WorkerScratch<uint64_t>(4, int64_t{1} << 61).status());
  EXPECT_TRUE(WorkerScratch<uint64_t>(3, 0).status());
}

}  // namespace
}  // namespace xla_ffi_kit
