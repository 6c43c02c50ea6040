// Against std::stable_partition, for every instruction set of this CPU and
// every length of a few vectors.

#include "accelerate/kernels/sort/vector_split.h"

#include <algorithm>
#include <cstdint>
#include <random>
#include <type_traits>
#include <vector>

#include "accelerate/core/vector_sort.h"
#include "gtest/gtest.h"
#include "xla_ffi/testing/for_each_simd_target.h"

namespace xla_ffi_accelerate {

// Of its own namespace: there the standard library looks for it.
bool operator==(const Pair64& a, const Pair64& b) {
  return a.lo == b.lo && a.hi == b.hi;
}

namespace sort {
namespace {

namespace testing = ::xla_ffi_kit::testing;

template <typename K>
K KeyOf(uint64_t bits) {
  if constexpr (std::is_same_v<K, Pair64>) {
    return {bits, bits % 3};
  } else {
    return static_cast<K>(bits);
  }
}

template <typename K>
class VectorSplitTest : public ::testing::Test {};
using Keys = ::testing::Types<uint32_t, uint64_t, Pair64>;
TYPED_TEST_SUITE(VectorSplitTest, Keys);

TYPED_TEST(VectorSplitTest, KeepsTheOrderOfEachSide) {
  using K = TypeParam;
  std::mt19937_64 random(1);
  testing::ForEachSimdTarget([&] {
    for (int64_t n = 0; n <= 150; ++n) {
      SCOPED_TRACE(n);
      std::vector<K> keys(n + 1);
      for (K& key : keys) key = KeyOf<K>(random());
      // Nothing below it, everything but itself, and what is between.
      const K bound = n % 3 == 0   ? KeyOf<K>(0)
                      : n % 3 == 1 ? *std::max_element(keys.begin(), keys.end())
                                   : keys[n / 2];
      keys[n / 3] = bound;
      const K* in = keys.data() + n % 2;

      std::vector<K> want(in, in + n);
      const auto middle = std::stable_partition(
          want.begin(), want.end(), [&](const K& key) { return key < bound; });
      const int64_t lows = middle - want.begin();
      ASSERT_EQ(CountBelow(in, n, bound), lows);

      const K guard = KeyOf<K>(42);
      std::vector<K> low(n + kSplitSlack + 1, guard), high = low;
      ASSERT_EQ(SplitKeys(in, n, bound, low.data(), high.data()), lows);
      EXPECT_TRUE(low.back() == guard && high.back() == guard);
      EXPECT_TRUE(std::equal(want.begin(), middle, low.begin()));
      EXPECT_TRUE(std::equal(middle, want.end(), high.begin()));
    }
  });
}

}  // namespace
}  // namespace sort
}  // namespace xla_ffi_accelerate
