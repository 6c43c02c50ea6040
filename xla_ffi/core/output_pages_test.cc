#include "xla_ffi/core/output_pages.h"

#include <sys/mman.h>

#include <cstddef>
#include <cstring>

#include "gtest/gtest.h"

namespace xla_ffi_kit {
namespace {

class OutputPagesTest : public ::testing::Test {
 protected:
  static constexpr size_t kBytes = size_t{16} << 20;

  OutputPagesTest()
      : data_(mmap(nullptr, kBytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
    EXPECT_NE(data_, MAP_FAILED);
  }
  ~OutputPagesTest() override { munmap(data_, kBytes); }

  // Kernels without transparent huge pages refuse the advice.
  bool HasHugePages() { return madvise(data_, kBytes, MADV_HUGEPAGE) == 0; }

  void* data_;
};

TEST_F(OutputPagesTest, AdvisesFreshMemoryOnly) {
  if (!HasHugePages()) GTEST_SKIP() << "no transparent huge pages";
  EXPECT_TRUE(AdviseHugePages(data_, kBytes));
  std::memset(data_, 1, kBytes);
  EXPECT_FALSE(AdviseHugePages(data_, kBytes));
}

TEST_F(OutputPagesTest, LeavesSmallAndMisalignedResultsAlone) {
  EXPECT_FALSE(AdviseHugePages(data_, kHugePagesMinBytes - 1));
  EXPECT_FALSE(AdviseHugePages(nullptr, 0));
  // Not mapped: an error of the kernel is no error here.
  munmap(data_, kBytes);
  EXPECT_FALSE(AdviseHugePages(data_, kBytes));
}

TEST_F(OutputPagesTest, KeepsTheContents) {
  auto* bytes = static_cast<char*>(data_);
  bytes[123] = 7;
  AdviseHugePages(data_, kBytes);
  EXPECT_EQ(bytes[123], 7);
  EXPECT_EQ(bytes[kBytes - 1], 0);
}

}  // namespace
}  // namespace xla_ffi_kit
