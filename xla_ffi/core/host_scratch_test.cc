#include "xla_ffi/core/host_scratch.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>

#ifdef __linux__
#include <sys/mman.h>
#endif

#include "gtest/gtest.h"

static int64_t taken_bytes = 0;  // by the last call

// In place of the C library's.
extern "C" void* aligned_alloc(size_t alignment, size_t bytes) {
  taken_bytes = static_cast<int64_t>(bytes);
  void* memory = nullptr;
  return posix_memalign(&memory, alignment, bytes) == 0 ? memory : nullptr;
}

namespace xla_ffi_kit {
namespace {

#ifdef __linux__

// Whether the kernel was asked for huge pages at that address.
bool IsAdvised(const void* data) {
  const auto address = reinterpret_cast<uintptr_t>(data);
  std::ifstream maps("/proc/self/smaps");
  bool is_there = false;
  for (std::string line; std::getline(maps, line);) {
    uintptr_t begin, end;
    char dash;
    std::istringstream range(line);
    if (range >> std::hex >> begin >> dash >> end && dash == '-') {
      is_there = begin <= address && address < end;
    }
    if (is_there && line.rfind("VmFlags:", 0) == 0) {
      return line.find(" hg") != std::string::npos;
    }
  }
  return false;
}

// The BUILD file runs this with the variable and without. The first test, so
// that no memory is there that malloc keeps, with the advice it once had.
TEST(HostScratchTest, AsksForHugePagesUnlessToldNotTo) {
  constexpr int64_t kBytes = int64_t{64} << 20;
  const char* variable = std::getenv("XLA_FFI_KIT_HUGE_PAGES");
  const bool is_on = variable == nullptr || std::string(variable) != "0";
  const HostScratch<char> scratch(kBytes);
  ASSERT_NE(scratch.get(), nullptr);
  if (is_on && madvise(scratch.get(), 2 << 20, MADV_HUGEPAGE) != 0) {
    GTEST_SKIP() << "no transparent huge pages";
  }
  EXPECT_EQ(IsAdvised(scratch.get() + kBytes / 2), is_on);
}

#endif  // __linux__

TEST(HostScratchTest, IsAlignedAndWritable) {
  for (const int64_t n : {0, 1, 1000, 5 << 20}) {
    const HostScratch<uint32_t> scratch(n);
    ASSERT_NE(scratch.get(), nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(scratch.get()) % 64, 0u);
    std::memset(scratch.get(), 1, n * sizeof(uint32_t));
  }
}

// No page more than its bytes need, of a line of the cache or of 2 MiB.
TEST(HostScratchTest, TakesWholePagesAndNoMore) {
  constexpr int64_t kHuge = int64_t{2} << 20;
  const int64_t page = UsesHugePages() ? kHuge : 64;
  const auto bytes_of = [](int64_t bytes) {
    EXPECT_NE(HostScratch<char>(bytes).get(), nullptr);
    return taken_bytes;
  };
  EXPECT_EQ(bytes_of(0), 64);
  EXPECT_EQ(bytes_of(64), 64);
  EXPECT_EQ(bytes_of(65), 128);
  EXPECT_EQ(bytes_of(2 * kHuge), 2 * kHuge);
  EXPECT_EQ(bytes_of(2 * kHuge + 1), 2 * kHuge + page);
}

TEST(HostScratchTest, IsNullWhereThereIsNoMemory) {
  EXPECT_EQ(HostScratch<uint64_t>(int64_t{1} << 60).get(), nullptr);
  // Their bytes are 0 in 64 bits.
  EXPECT_EQ(HostScratch<uint64_t>(int64_t{1} << 61).get(), nullptr);
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
