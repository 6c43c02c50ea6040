#include "xla_ffi/core/cuda/elementwise.h"

#include <cstdint>
#include <vector>

#include "gtest/gtest.h"

namespace xla_ffi_kit {
namespace {

struct Count {
  std::vector<int>* visits;

  template <int N>
  void operator()(int64_t i, Width<N>) const {
    for (int k = 0; k < N; ++k) ++visits->at(static_cast<size_t>(i + k));
  }
};

TEST(ElementwiseTest, ThreadsVisitEveryElementOnce) {
  for (const int64_t count : {1, 2, 7, 8, 9, 255, 2048, 4099}) {
    for (const int64_t threads : {1, 3, 256, 10'000}) {
      std::vector<int> visits(static_cast<size_t>(count));
      for (int64_t thread = 0; thread < threads; ++thread) {
        ForEachPack<8>(thread, threads, count, Count{&visits});
      }
      EXPECT_EQ(visits, std::vector<int>(visits.size(), 1))
          << count << " elements, " << threads << " threads";
    }
  }
}

TEST(ElementwiseTest, PlanHasAThreadForEveryPackWithinTheLimits) {
  for (const int width : {1, 2, 4, 8, 16}) {
    for (int64_t count = 1; count <= (int64_t{1} << 50);
         count = count * 3 + 1) {
      const LaunchShape shape = PlanElementwise(count, width);
      ASSERT_GE(shape.blocks, 1);
      ASSERT_LE(shape.blocks, kMaxBlocks);
      ASSERT_LE(shape.threads, 1024);
      const int64_t threads = shape.blocks * shape.threads;
      ASSERT_TRUE(shape.blocks == kMaxBlocks || threads >= count / width);
      // Not a whole block without work.
      ASSERT_LT(threads - shape.threads, count);
    }
  }
}

TEST(PackTest, LoadsAndStoresBytes) {
  alignas(kPackBytes) uint16_t from[8] = {1, 2, 3, 4, 5, 6, 7, 8}, to[8] = {};
  EXPECT_TRUE(IsPackAligned(from));
  EXPECT_FALSE(IsPackAligned(from + 1));
  StorePack(LoadPack<8>(from), to);
  for (int i = 0; i < 8; ++i) EXPECT_EQ(to[i], from[i]);
  EXPECT_EQ(kPackWidth<uint16_t>, 8);
}

}  // namespace
}  // namespace xla_ffi_kit
