#include "accelerate/kernels/random/random.h"

#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "xla_ffi/testing/call_frame.h"
#include "xla_ffi/testing/for_each_simd_target.h"

namespace xla_ffi_accelerate::random {
namespace {

namespace testing = ::xla_ffi_kit::testing;

using testing::CallFrame;
using testing::Status;
using Words = std::array<uint32_t, 2>;

// As the paper has it, word by word.
Words Hash(Words key, Words x) {
  constexpr int kRotations[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
  const uint32_t keys[] = {key[0], key[1], key[0] ^ key[1] ^ 0x1BD11BDA};
  x = {x[0] + keys[0], x[1] + keys[1]};
  for (uint32_t i = 0; i < 5; ++i) {
    for (const int r : kRotations[i % 2]) {
      x[0] += x[1];
      x[1] = (x[1] << r | x[1] >> (32 - r)) ^ x[0];
    }
    x[0] += keys[(i + 1) % 3];
    x[1] += keys[(i + 2) % 3] + i + 1;
  }
  return x;
}

// One key's elements, by the definition in random.h.
std::vector<uint8_t> Want(const RandomBitsProblem& p, Words key) {
  std::vector<uint8_t> bytes(p.size * p.width);
  if (p.partitionable || p.width == 8) {
    for (int64_t i = 0; i < p.size; ++i) {
      const auto low = static_cast<uint32_t>(i);
      const Words counter = p.partitionable
                                ? Words{static_cast<uint32_t>(i >> 32), low}
                                : Words{low, static_cast<uint32_t>(i + p.size)};
      const Words h = Hash(key, counter);
      const uint64_t element =
          p.width == 8 ? uint64_t{h[0]} << 32 | h[1] : h[0] ^ h[1];
      std::memcpy(&bytes[i * p.width], &element, p.width);
    }
    return bytes;
  }
  const int64_t count = (p.size * p.width + 3) / 4, half = (count + 1) / 2;
  std::vector<uint32_t> words(2 * half);
  for (int64_t i = 0; i < half; ++i) {
    const int64_t second = i + half < count ? i + half : 0;
    const Words h =
        Hash(key, {static_cast<uint32_t>(i), static_cast<uint32_t>(second)});
    words[i] = h[0];
    words[i + half] = h[1];
  }
  if (!bytes.empty()) std::memcpy(bytes.data(), words.data(), bytes.size());
  return bytes;
}

TEST(RandomTest, KnownAnswers) {  // of Random123
  EXPECT_EQ(Hash({0, 0}, {0, 0}), (Words{0x6b200159, 0x99ba4efe}));
  EXPECT_EQ(Hash({0x13198a2e, 0x03707344}, {0x243f6a88, 0x85a308d3}),
            (Words{0xc4923a9c, 0x483df7a0}));
}

TEST(RandomTest, EveryLayoutAndSize) {
  std::vector<int64_t> sizes = {511, 512, 513, 1023, 1024, 1025, 2500};
  for (int64_t n = 0; n <= 100; ++n) sizes.push_back(n);
  const std::vector<uint32_t> keys = {0, 0, 1, ~0u, 0x13198a2e, 0x03707344};
  testing::ForEachSimdTarget([&] {
    for (const bool partitionable : {true, false}) {
      for (const int64_t width : {1, 2, 4, 8}) {
        for (const int64_t size : sizes) {
          RandomBitsProblem problem;
          problem.keys = keys.data();
          problem.num_keys = 3;
          problem.size = size;
          problem.width = width;
          problem.partitionable = partitionable;
          std::vector<uint8_t> got(3 * size * width + 1, 0xee), want;
          problem.out = got.data();
          RandomBits(problem, {});
          for (int k = 0; k < 3; ++k) {
            const auto of_key = Want(problem, {keys[2 * k], keys[2 * k + 1]});
            want.insert(want.end(), of_key.begin(), of_key.end());
          }
          want.push_back(0xee);  // and nothing behind it
          ASSERT_EQ(got, want)
              << size << " of " << width << " bytes, "
              << (partitionable ? "" : "not ") << "partitionable";
        }
      }
    }
  });
}

TEST(RandomTest, HashesOfOneKeyAndOfMany) {
  testing::ForEachSimdTarget([&] {
    for (const int64_t n : {1, 7, 31, 32, 33, 512, 777}) {
      std::vector<uint32_t> x[4], got[2];
      for (int64_t i = 0; i < n; ++i) {
        for (uint32_t j = 0; j < 4; ++j) {
          x[j].push_back(static_cast<uint32_t>(i) * 2654435761u + j);
        }
      }
      for (const bool is_one_key : {true, false}) {
        Threefry2x32Problem problem;
        problem.size = n;
        problem.is_one_key = is_one_key;
        for (int j = 0; j < 2; ++j) {
          got[j].assign(n, 0);
          problem.keys[j] = x[j].data();
          problem.counters[j] = x[2 + j].data();
          problem.out[j] = got[j].data();
        }
        Threefry2x32(problem, {});
        for (int64_t i = 0; i < n; ++i) {
          const int64_t k = is_one_key ? 0 : i;
          ASSERT_EQ((Words{got[0][i], got[1][i]}),
                    Hash({x[0][k], x[1][k]}, {x[2][i], x[3][i]}))
              << i << " of " << n;
        }
      }
    }
  });
}

Status RunBits(CallFrame::Dims key_dims, CallFrame::Dims dims, int threads,
               std::vector<uint32_t>* bits) {
  std::vector<uint32_t> keys = {1, 2, 3, 4};
  return CallFrame()
      .Arg(keys, key_dims)
      .Ret(*bits, dims)
      .Attr("partitionable", false)
      .Threads(threads)
      .Run(XlaFfiAccelerateRandomBitsCpu);
}

TEST(RandomHandlerTest, ThreadsShareTheKeys) {
  const int64_t n = 200'001;
  std::vector<uint32_t> one(2 * n), three(2 * n);
  ASSERT_TRUE(RunBits({2, 2}, {2, n}, 1, &one).ok());
  ASSERT_TRUE(RunBits({2, 2}, {2, n}, 3, &three).ok());
  EXPECT_EQ(one, three);
  EXPECT_EQ(one[0], Hash({1, 2}, {0, (n + 1) / 2})[0]);
  EXPECT_EQ(one[2 * n - 1], Hash({3, 4}, {(n - 3) / 2, n - 1})[1]);
}

TEST(RandomHandlerTest, EmptyResultsAreNoWork) {
  std::vector<uint32_t> bits(4);
  EXPECT_TRUE(RunBits({2, 2}, {2, 0}, 1, &bits).ok());
  EXPECT_TRUE(RunBits({0, 2}, {0, 3}, 1, &bits).ok());
}

TEST(RandomHandlerTest, RefusesBitsThatAreNotOfTheKeys) {
  std::vector<uint32_t> bits(4);
  const std::string error = "xla_ffi_accelerate.random_bits: result bits: ";
  EXPECT_EQ(RunBits({2, 2}, {4}, 1, &bits).message,
            error + "expected first axes (2), got shape (4)");
  EXPECT_EQ(RunBits({2, 2}, {}, 1, &bits).message,
            error + "expected first axes (2), got shape ()");
  const int64_t most = kMaxRandomWords;
  EXPECT_EQ(RunBits({0, 2}, {0, most}, 1, &bits).message, "");
  EXPECT_EQ(RunBits({0, 2}, {0, most + 1}, 1, &bits).message,
            error +
                "expected less than 2^32 - 1 words of a key, got shape (0, "
                "4294967295)");
}

TEST(RandomHandlerTest, KeysOfAHashAreOneOrOfTheCounters) {
  std::vector<uint32_t> key = {1, 1}, x = {2, 3}, y(2), z(2);
  const auto run = [&](const CallFrame::Dims& dims) {
    return CallFrame()
        .Arg(key, dims)
        .Arg(key, dims)
        .Arg(x, {2})
        .Arg(x, {2})
        .Ret(y, {2})
        .Ret(z, {2})
        .Run(XlaFfiAccelerateThreefry2x32Cpu)
        .message;
  };
  for (const CallFrame::Dims& dims : {CallFrame::Dims{}, {2}}) {
    EXPECT_EQ(run(dims), "");
    EXPECT_EQ((Words{y[1], z[1]}), Hash({1, 1}, {3, 3}));
  }
  EXPECT_EQ(run({1}),
            "xla_ffi_accelerate.threefry2x32: operand key0: expected a scalar "
            "or shape (2) like operand counter0, got shape (1)");
}

}  // namespace
}  // namespace xla_ffi_accelerate::random
