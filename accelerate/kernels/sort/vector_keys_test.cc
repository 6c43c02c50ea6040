// The vectorized loops against the code of one key, and against
// std::stable_partition, for every instruction set of this CPU, every length of
// a few vectors, and keys at odd addresses.

#include "accelerate/kernels/sort/vector_keys.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <random>
#include <type_traits>
#include <variant>
#include <vector>

#include "accelerate/core/ordered_key.h"
#include "accelerate/core/packed_key.h"
#include "gtest/gtest.h"
#include "xla_ffi/core/half.h"
#include "xla_ffi/testing/for_each_simd_target.h"

namespace xla_ffi_accelerate {

// Of its own namespace: there the standard library looks for it.
bool operator==(const Pair64& a, const Pair64& b) {
  return a.lo == b.lo && a.hi == b.hi;
}

namespace sort {
namespace {

namespace testing = ::xla_ffi_kit::testing;

constexpr int64_t kMaxLength = 150;

// Any bits, and half of them next to where the kind of a float changes.
template <typename Code>
std::vector<typename Code::Key> RandomKeys(const Code& code,
                                           std::mt19937_64& random) {
  using K = typename Code::Key;
  std::vector<K> edges = {0};
  if constexpr (Code::kHasTies) {
    edges = {0, code.infinity, code.min_non_zero, code.Nan()};
  }
  constexpr K kSign = static_cast<K>(K{1} << (8 * sizeof(K) - 1));
  std::vector<K> keys(kMaxLength + 1);
  for (K& key : keys) {
    key = static_cast<K>(random());
    const uint64_t choice = random();
    if (choice % 2 == 0) continue;
    const K beside = static_cast<K>(choice / 2 % 3 - 1);
    key = static_cast<K>(edges[choice / 6 % edges.size()] + beside);
    if (choice >> 63 != 0) key ^= kSign;
  }
  return keys;
}

template <typename K, typename Code>
void CheckEncoding(const Code& code, const K* in, int64_t n) {
  std::vector<K> want(n);
  bool has_ties = false;
  for (int64_t i = 0; i < n; ++i) {
    want[i] = code.Encode(in[i]);
    has_ties |= code.Decode(want[i]) != in[i];
  }
  std::vector<K> codes(n + 1, K{42});
  ASSERT_EQ(EncodeKeys(code, in, n, codes.data()), has_ties);
  ASSERT_EQ(codes.back(), K{42}) << "written past the end";
  codes.pop_back();
  ASSERT_EQ(codes, want);

  std::transform(want.begin(), want.end(), want.begin(),
                 [&](K encoded) { return code.Decode(encoded); });
  DecodeKeys(code, n, codes.data());
  ASSERT_EQ(codes, want);
}

template <typename Packed, typename K, typename Code>
void CheckPacking(const Code& code, const K* in, int64_t n) {
  constexpr int64_t kFirst = 1'000'000;
  std::vector<Packed> packed(n);
  PackKeys(code, in, n, kFirst, packed.data());
  for (int64_t i = 0; i < n; ++i) {
    ASSERT_EQ(Packing<Packed>::Code(packed[i]), code.Encode(in[i]));
    ASSERT_EQ(Packing<Packed>::Index(packed[i]), kFirst + i);
  }
  std::vector<K> keys(n);
  UnpackKeys(code, packed.data(), n, keys.data());
  for (int64_t i = 0; i < n; ++i) {
    ASSERT_EQ(keys[i], code.Decode(code.Encode(in[i])));
  }
}

class VectorCodesTest : public ::testing::TestWithParam<KeyCode> {};

TEST_P(VectorCodesTest, AreThoseOfEveryKey) {
  std::mt19937_64 random(1);
  const auto check = [&](const auto& code) {
    testing::ForEachSimdTarget([&] {
      for (int64_t n = 0; n <= kMaxLength; ++n) {
        SCOPED_TRACE(n);
        const auto keys = RandomKeys(code, random);
        const auto* in = keys.data() + n % 2;
        ASSERT_NO_FATAL_FAILURE(CheckEncoding(code, in, n));
        ASSERT_NO_FATAL_FAILURE(CheckPacking<Pair64>(code, in, n));
        if (sizeof(*in) == 8) continue;
        ASSERT_NO_FATAL_FAILURE(CheckPacking<uint64_t>(code, in, n));
      }
    });
  };
  std::visit(check, GetParam());
}

TEST_P(VectorCodesTest, SayThatNothingIsTied) {
  const auto check = [&](const auto& code) {
    using K = typename std::decay_t<decltype(code)>::Key;
    const std::vector<K> zeros(kMaxLength, 0);
    std::vector<K> codes(kMaxLength);
    testing::ForEachSimdTarget([&] {
      EXPECT_FALSE(EncodeKeys(code, zeros.data(), kMaxLength, codes.data()));
    });
  };
  std::visit(check, GetParam());
}

INSTANTIATE_TEST_SUITE_P(Types, VectorCodesTest,
                         ::testing::Values(KeyCode(OrderedKey<uint8_t>(false)),
                                           KeyCode(OrderedKey<int8_t>(false)),
                                           KeyCode(OrderedKey<uint16_t>(false)),
                                           KeyCode(OrderedKey<int16_t>(false)),
                                           KeyCode(OrderedKey<uint32_t>(false)),
                                           KeyCode(OrderedKey<int32_t>(false)),
                                           KeyCode(OrderedKey<uint64_t>(false)),
                                           KeyCode(OrderedKey<int64_t>(false)),
                                           KeyCode(OrderedKey<Float16>(true)),
                                           KeyCode(OrderedKey<BFloat16>(true)),
                                           KeyCode(OrderedKey<BFloat16>(false)),
                                           KeyCode(OrderedKey<float>(true)),
                                           KeyCode(OrderedKey<float>(false)),
                                           KeyCode(OrderedKey<double>(true)),
                                           KeyCode(OrderedKey<double>(false))));

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
