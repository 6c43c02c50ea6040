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

// Memory for kHuge elements, of which no test knows what another has left. To
// have it anew would take longer than most of the handlers.
Bytes& Used(int number) {
  static std::array<Bytes, 4> memory = {Bytes(kHuge), Bytes(kHuge),
                                        Bytes(kHuge), Bytes(kHuge)};
  return memory[number];
}

void Call(XLA_FFI_Handler* handler, CallFrame frame) {
  ASSERT_EQ(frame.Threads(2).Run(handler).message, "");
}

// Values that no power of two is a period of.
constexpr int64_t kPeriod = 251;

// An index that wraps is wrong in long stretches: each of these positions, and
// all of the last, show it.
template <typename Check>
int64_t Wrong(int64_t size, const Check& is_wrong) {
  int64_t wrong = 0;
  for (int64_t i = 0; i < size; i += i < size - 9999 ? 61 : 1) {
    wrong += is_wrong(i);
  }
  return wrong;
}

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
  Bytes& x = Used(0);
  std::fill(x.begin(), x.end(), int8_t{3});
  Call(XlaFfiAccelerateCumulativeCpu, CallFrame()
                                          .Attr("axis", int64_t{0})
                                          .Attr("reverse", int64_t{0})
                                          .Arg(kS8, x.data(), {kHuge})
                                          .Ret(kS8, x.data(), {kHuge}));
  EXPECT_EQ(Wrong(kHuge,
                  [&](int64_t i) {
                    return x[i] != static_cast<int8_t>(3 * (i + 1));
                  }),
            0);
}

TEST(HugeSizesTest, SortOfALongRow) {
  Bytes &x = Used(0), &y = Used(1);
  for (int64_t i = 0; i < kPeriod; ++i) x[i] = static_cast<int8_t>(i - 125);
  for (int64_t i = kPeriod; i < kHuge; i += kPeriod) {
    std::copy_n(x.begin(), std::min(kPeriod, kHuge - i), x.begin() + i);
  }
  Call(XlaFfiAccelerateSortCpu, CallFrame()
                                    .Attr("num_keys", int64_t{1})
                                    .Arg(kS8, x.data(), {kHuge})
                                    .Ret(kS8, y.data(), {kHuge}));
  // As many of each value, and one more of those of the last, partial period.
  constexpr int64_t kEach = kHuge / kPeriod, kMore = kHuge % kPeriod;
  const auto value = [&](int64_t i) {
    const int64_t first = (kEach + 1) * kMore;
    return i < first ? i / (kEach + 1) : kMore + (i - first) / kEach;
  };
  EXPECT_EQ(Wrong(kHuge, [&](int64_t i) { return y[i] != value(i) - 125; }), 0);
}

TEST(HugeSizesTest, SortOfRowsWithPayload) {
  constexpr int64_t kLength = 256, kMany = kMost / kLength + 16;
  static_assert(kLength * kMany <= kHuge);
  Bytes &key = Used(0), &payload = Used(1);
  Bytes &keys = Used(2), &payloads = Used(3);
  // Each row falls, so that sorting reverses it; but by how much it is shifted
  // depends on the row.
  std::array<int8_t, kLength> falling = {};
  std::array<int8_t, 2 * kLength> rising = {};
  for (int64_t i = 0; i < kLength; ++i) {
    falling[i] = static_cast<int8_t>(127 - i);
    rising[i] = rising[i + kLength] = static_cast<int8_t>(i);
  }
  for (int64_t row = 0; row < kMany; ++row) {
    std::copy_n(falling.begin(), kLength, key.begin() + row * kLength);
    std::copy_n(rising.begin() + row % kLength, kLength,
                payload.begin() + row * kLength);
  }
  const CallFrame::Dims dims = {kMany, kLength};
  Call(XlaFfiAccelerateSortCpu, CallFrame()
                                    .Attr("num_keys", int64_t{1})
                                    .Arg(kS8, key.data(), dims)
                                    .Arg(kS8, payload.data(), dims)
                                    .Ret(kS8, keys.data(), dims)
                                    .Ret(kS8, payloads.data(), dims));
  EXPECT_EQ(Wrong(kLength * kMany,
                  [&](int64_t at) {
                    const int64_t row = at / kLength, i = at % kLength;
                    return keys[at] != static_cast<int8_t>(i - 128) ||
                           payloads[at] != static_cast<int8_t>(255 - i + row);
                  }),
            0);
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
