// More than 2^31 elements: where an index of 32 bits would wrap.

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>

#include "accelerate/kernels/argmax/argmax.h"
#include "accelerate/kernels/cumulative/cumulative.h"
#include "accelerate/kernels/sort/sort.h"
#include "accelerate/kernels/top_k/top_k.h"
#include "gtest/gtest.h"
#include "xla/ffi/api/ffi.h"
#include "xla_ffi/testing/call_frame.h"
#include "xla_ffi/testing/huge_bytes.h"

namespace xla_ffi_accelerate {
namespace {

namespace testing = ::xla_ffi_kit::testing;

using testing::CallFrame;
using Bytes = testing::HugeBytes;

constexpr int64_t kMost = int64_t{1} << 31;  // that an index of 32 bits reaches
constexpr int64_t kHuge = kMost + 4097;
// Rows whose elements are more than that only together.
constexpr int64_t kRows = 5, kRowLength = int64_t{1} << 29;

constexpr auto kS8 = XLA_FFI_DataType_S8, kS32 = XLA_FFI_DataType_S32;

void Call(XLA_FFI_Handler* handler, CallFrame frame) {
  ASSERT_EQ(frame.Threads(2).Run(handler).message, "");
}

// A value of position i that no power of two is a period of.
int8_t Value(int64_t i) { return static_cast<int8_t>(i % 251 - 125); }

TEST(HugeSizesTest, ArgmaxOfTheLongestLine) {
  Bytes x(kMost);
  x[kMost - 2] = 9;
  x[kMost - 1] = 9;
  int64_t index = -1;
  const auto frame = [&] {
    return CallFrame()
        .Attr("axis", int64_t{0})
        .Attr("of", std::string("max"))
        .Arg(kS8, x.data(), {kMost})
        .Ret(XLA_FFI_DataType_S64, &index, {});
  };
  Call(XlaFfiAccelerateArgmaxCpu, frame());
  EXPECT_EQ(index, kMost - 2);
  x[kMost - 1] = 10;
  Call(XlaFfiAccelerateArgmaxCpu, frame());
  EXPECT_EQ(index, kMost - 1);
}

TEST(HugeSizesTest, ArgmaxOfRows) {
  Bytes x(kRows * kRowLength);
  std::array<int32_t, kRows> indices = {};
  for (int64_t r = 0; r < kRows; ++r) x[(r + 1) * kRowLength - 1 - r] = 1;
  Call(XlaFfiAccelerateArgmaxCpu, CallFrame()
                                      .Attr("axis", int64_t{1})
                                      .Attr("of", std::string("max"))
                                      .Arg(kS8, x.data(), {kRows, kRowLength})
                                      .Ret(kS32, indices.data(), {kRows}));
  for (int64_t r = 0; r < kRows; ++r) {
    EXPECT_EQ(indices[r], kRowLength - 1 - r);
  }
}

TEST(HugeSizesTest, CumsumInPlace) {
  Bytes x(kHuge);
  std::fill(x.begin(), x.end(), int8_t{3});
  Call(XlaFfiAccelerateCumulativeCpu, CallFrame()
                                          .Attr("axis", int64_t{0})
                                          .Attr("op", std::string("sum"))
                                          .Attr("reverse", int64_t{0})
                                          .Arg(kS8, x.data(), {kHuge})
                                          .Ret(kS8, x.data(), {kHuge}));
  int64_t wrong = 0;
  for (int64_t i = 0; i < kHuge; ++i) {
    wrong += x[i] != static_cast<int8_t>(3 * (i + 1));
  }
  EXPECT_EQ(wrong, 0);
}

TEST(HugeSizesTest, SortOfALongRow) {
  Bytes x(kHuge), y(kHuge);
  std::array<int64_t, 256> expected = {};
  for (int64_t i = 0; i < kHuge; ++i) ++expected[128 + (x[i] = Value(i))];
  Call(XlaFfiAccelerateSortCpu, CallFrame()
                                    .Attr("num_keys", int64_t{1})
                                    .Arg(kS8, x.data(), {kHuge})
                                    .Ret(kS8, y.data(), {kHuge}));
  EXPECT_TRUE(std::is_sorted(y.begin(), y.end()));
  std::array<int64_t, 256> counts = {};
  for (const int8_t value : y) ++counts[128 + value];
  EXPECT_EQ(counts, expected);
}

TEST(HugeSizesTest, SortOfRowsWithPayload) {
  constexpr int64_t kLength = 256, kMany = kMost / kLength + 16;
  Bytes key(kLength * kMany), payload(kLength * kMany);
  Bytes keys(kLength * kMany), payloads(kLength * kMany);
  // Each row falls, so that sorting reverses it; but by how much it is shifted
  // depends on the row.
  for (int64_t row = 0; row < kMany; ++row) {
    for (int64_t i = 0; i < kLength; ++i) {
      key[row * kLength + i] = static_cast<int8_t>(127 - i);
      payload[row * kLength + i] = static_cast<int8_t>(i + row);
    }
  }
  const CallFrame::Dims dims = {kMany, kLength};
  Call(XlaFfiAccelerateSortCpu, CallFrame()
                                    .Attr("num_keys", int64_t{1})
                                    .Arg(kS8, key.data(), dims)
                                    .Arg(kS8, payload.data(), dims)
                                    .Ret(kS8, keys.data(), dims)
                                    .Ret(kS8, payloads.data(), dims));
  int64_t wrong = 0;
  for (int64_t row = 0; row < kMany; ++row) {
    for (int64_t i = 0; i < kLength; ++i) {
      const int64_t at = row * kLength + i;
      wrong += keys[at] != static_cast<int8_t>(i - 128);
      wrong += payloads[at] != static_cast<int8_t>(255 - i + row);
    }
  }
  EXPECT_EQ(wrong, 0);
}

TEST(HugeSizesTest, TopKOfTheLongestRow) {
  Bytes x(kMost);
  x[5] = 3;
  x[kMost - 2] = 4;
  x[kMost - 1] = 4;
  std::array<int8_t, 4> values = {};
  std::array<int32_t, 4> indices = {};
  Call(XlaFfiAccelerateTopKCpu, CallFrame()
                                    .Arg(kS8, x.data(), {kMost})
                                    .Ret(kS8, values.data(), {4})
                                    .Ret(kS32, indices.data(), {4}));
  EXPECT_EQ(values, (std::array<int8_t, 4>{4, 4, 3, 0}));
  EXPECT_EQ(indices, (std::array<int32_t, 4>{INT32_MAX - 1, INT32_MAX, 5, 0}));
}

TEST(HugeSizesTest, TopKOfRows) {
  Bytes x(kRows * kRowLength);
  for (int64_t r = 0; r < kRows; ++r) x[(r + 1) * kRowLength - 1 - r] = 1;
  std::array<int8_t, kRows> values = {};
  std::array<int32_t, kRows> indices = {};
  Call(XlaFfiAccelerateTopKCpu, CallFrame()
                                    .Arg(kS8, x.data(), {kRows, kRowLength})
                                    .Ret(kS8, values.data(), {kRows, 1})
                                    .Ret(kS32, indices.data(), {kRows, 1}));
  for (int64_t r = 0; r < kRows; ++r) {
    EXPECT_EQ(values[r], 1);
    EXPECT_EQ(indices[r], kRowLength - 1 - r);
  }
}

}  // namespace
}  // namespace xla_ffi_accelerate
