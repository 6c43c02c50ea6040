#include "accelerate/kernels/conv_general_dilated/conv_general_dilated.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "xla_ffi/testing/call_frame.h"
#include "xla_ffi/testing/for_each_simd_target.h"

namespace xla_ffi_accelerate::conv_general_dilated {
namespace {

namespace testing = ::xla_ffi_kit::testing;

using testing::CallFrame;

// Base 5 x 7, window 3 x 2.
DepthwiseConv Conv(int64_t channels, int64_t stride, int64_t padding,
                   int64_t window_dilation) {
  DepthwiseConv conv;
  conv.batch = 2;
  conv.channels = channels;
  conv.rows = {5, 3, 0, stride, padding, window_dilation};
  conv.columns = {7, 2, 0, 1, padding + 1, window_dilation};
  for (ConvDimension* p : {&conv.rows, &conv.columns}) {
    const int64_t span = (p->window - 1) * p->window_dilation + 1;
    p->result = (p->base + 2 * p->padding - span) / p->stride + 1;
  }
  return conv;
}

std::vector<DepthwiseConv> Convs() {
  std::vector<DepthwiseConv> convs;
  for (const int64_t channels : {1, 3, 4, 8, 17, 35}) {
    convs.push_back(Conv(channels, 1, 1, 1));
    convs.push_back(Conv(channels, 2, 2, 1));
    convs.push_back(Conv(channels, 1, 0, 2));
    convs.push_back(Conv(channels, 1, -1, 1));
    convs.push_back(Conv(channels, 2, 3, 2));
  }
  return convs;
}

std::vector<float> Values(int64_t n, std::mt19937_64& random) {
  std::normal_distribution<float> normal;
  std::vector<float> values(n);
  for (float& value : values)
    value = random() % 9 == 0 ? -0.0f : normal(random);
  return values;
}

// Element [b, y, x, c], or a zero.
float At(const DepthwiseConv& conv, const std::vector<float>& base, int64_t b,
         int64_t y, int64_t x, int64_t c) {
  const ConvDimension &rows = conv.rows, &columns = conv.columns;
  if (!rows.IsInside(y) || !columns.IsInside(x)) return 0;
  return base[((b * rows.base + y) * columns.base + x) * conv.channels + c];
}

// Calls fn(b, y, x, c) for each element of an array.
template <typename Fn>
void ForEach(int64_t batch, int64_t rows, int64_t columns, int64_t channels,
             const Fn& fn) {
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t y = 0; y < rows; ++y) {
      for (int64_t x = 0; x < columns; ++x) {
        for (int64_t c = 0; c < channels; ++c) fn(b, y, x, c);
      }
    }
  }
}

// In the order that the header promises.
std::vector<float> Want(const DepthwiseConv& conv,
                        const std::vector<float>& base,
                        const std::vector<float>& window, bool is_fused) {
  std::vector<float> want;
  ForEach(conv.batch, conv.rows.result, conv.columns.result, conv.channels,
          [&](int64_t b, int64_t y, int64_t x, int64_t c) {
            float sum = 0;
            for (int64_t p = 0; p < conv.rows.window; ++p) {
              for (int64_t q = 0; q < conv.columns.window; ++q) {
                const float value = At(conv, base, b, conv.rows.At(y, p),
                                       conv.columns.At(x, q), c);
                const float weight =
                    window[(p * conv.columns.window + q) * conv.channels + c];
                const volatile float product = value * weight;
                sum = is_fused ? std::fma(value, weight, sum) : sum + product;
              }
            }
            want.push_back(sum);
          });
  return want;
}

CallFrame FrameOf(const DepthwiseConv& conv) {
  const ConvDimension &rows = conv.rows, &columns = conv.columns;
  const auto pair = [](int64_t of_rows, int64_t of_columns) {
    return std::vector<int64_t>{of_rows, of_columns};
  };
  return CallFrame()
      .Attr("strides", pair(rows.stride, columns.stride))
      .Attr("padding", pair(rows.padding, columns.padding))
      .Attr("window_dilation",
            pair(rows.window_dilation, columns.window_dilation));
}

std::vector<float> RunConv(const DepthwiseConv& conv, std::vector<float> base,
                           std::vector<float> window, bool is_fused,
                           int64_t threads = 1) {
  const int64_t batch = conv.batch, c = conv.channels;
  const ConvDimension &rows = conv.rows, &columns = conv.columns;
  std::vector<float> got(batch * rows.result * columns.result * c, -1);
  const auto status = FrameOf(conv)
                          .Attr("is_fused", int64_t{is_fused})
                          .Arg(base, {batch, rows.base, columns.base, c})
                          .Arg(window, {rows.window, columns.window, c})
                          .Ret(got, {batch, rows.result, columns.result, c})
                          .Threads(threads)
                          .Run(XlaFfiAccelerateConvGeneralDilatedCpu);
  EXPECT_EQ(status.message, "");
  return got;
}

TEST(DepthwiseConvTest, SumsInOrder) {
  testing::ForEachSimdTarget([&] {
    // The baseline of x86 cannot round them together.
    const bool can_fuse = (hwy::SupportedTargets() & HWY_SSE2) == 0;
    std::mt19937_64 random(1);
    for (const DepthwiseConv& conv : Convs()) {
      const auto base = Values(2 * 5 * 7 * conv.channels, random);
      const auto window = Values(3 * 2 * conv.channels, random);
      for (const bool is_fused : {false, true}) {
        const auto want = Want(conv, base, window, is_fused && can_fuse);
        const auto got = RunConv(conv, base, window, is_fused);
        ASSERT_EQ(got.size(), want.size());
        for (size_t i = 0; i < got.size(); ++i) {
          ASSERT_EQ(got[i], want[i]) << i << " of " << conv.channels;
          ASSERT_EQ(std::signbit(got[i]), std::signbit(want[i]));
        }
      }
    }
  });
}

TEST(DepthwiseConvTest, ZerosBesideTheBaseAreMultiplied) {
  const DepthwiseConv conv = Conv(20, 1, 1, 1);
  const std::vector<float> base(2 * 5 * 7 * 20, 1);
  const std::vector<float> window(3 * 2 * 20,
                                  std::numeric_limits<float>::infinity());
  const auto got = RunConv(conv, base, window, true);
  EXPECT_TRUE(std::isnan(got[0]));
  const int64_t middle = 2 * conv.columns.result + 3;
  EXPECT_TRUE(std::isinf(got[middle * 20]));
}

TEST(DepthwiseConvTest, ThreadsGiveTheSame) {
  DepthwiseConv conv;
  conv.batch = 4;
  conv.channels = 24;
  conv.rows = {90, 3, 90, 1, /*padding=*/1};
  conv.columns = {80, 3, 78};
  std::mt19937_64 random(1);
  const auto base = Values(4 * 90 * 80 * 24, random);
  const auto small = Values(3 * 3 * 24, random);
  EXPECT_EQ(RunConv(conv, base, small, true, 3),
            RunConv(conv, base, small, true));
}

TEST(DepthwiseConvTest, EmptyArraysAreNone) {
  DepthwiseConv conv;
  conv.rows = {4, 2, 4};
  conv.columns = {5, 2, 4};
  conv.batch = 0;
  const std::vector<float> window(4, 1);
  EXPECT_EQ(RunConv(conv, {}, window, true), std::vector<float>());
  conv.batch = 1;
  conv.rows.base = conv.columns.base = 0;
  EXPECT_EQ(RunConv(conv, {}, window, true), std::vector<float>(16));
}

// No offset overflows.
TEST(DepthwiseConvTest, EverySpatialSizeIsBounded) {
  DepthwiseConv conv;
  const auto message = [&](int64_t rows, int64_t columns) {
    std::vector<float> none, window(1);
    return FrameOf(conv)
        .Attr("is_fused", int64_t{1})
        .Arg(none, {1, rows, columns, 1})
        .Arg(window, {1, 1, 1})
        .Ret(none, {1, 0, 0, 1})
        .Run(XlaFfiAccelerateConvGeneralDilatedCpu)
        .message;
  };
  EXPECT_EQ(message(kMaxConvSize, 0), "");
  const auto is_refused = [](const std::string& text, const char* axis) {
    return text.find(std::string(axis) + " of 0 to 2^30") != std::string::npos;
  };
  EXPECT_TRUE(is_refused(message(kMaxConvSize + 1, 0), "base_rows"));
  EXPECT_TRUE(is_refused(message(0, kMaxConvSize + 1), "base_columns"));
}

}  // namespace
}  // namespace xla_ffi_accelerate::conv_general_dilated
