#include "accelerate/kernels/conv_general_dilated/conv_general_dilated.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "accelerate/kernels/conv_general_dilated/conv_general_dilated_handler.h"
#include "gtest/gtest.h"
#include "xla_ffi/testing/bad_frames.h"
#include "xla_ffi/testing/call_frame.h"
#include "xla_ffi/testing/for_each_simd_target.h"

namespace xla_ffi_accelerate::conv_general_dilated {
namespace {

namespace testing = ::xla_ffi_kit::testing;

using testing::CallFrame;

// Base 5 x 7, window 3 x 2.
DepthwiseConv Conv(int64_t channels, int64_t stride, int64_t padding,
                   int64_t base_dilation, int64_t window_dilation) {
  DepthwiseConv conv;
  conv.batch = 2;
  conv.channels = channels;
  conv.rows = {5, 3, 0, stride, padding, base_dilation, window_dilation};
  conv.columns = {7, 2, 0, 1, padding + 1, base_dilation, window_dilation};
  for (ConvDimension* p : {&conv.rows, &conv.columns}) {
    const int64_t base = (p->base - 1) * p->base_dilation + 1;
    const int64_t span = (p->window - 1) * p->window_dilation + 1;
    p->result = (base + 2 * p->padding - span) / p->stride + 1;
  }
  return conv;
}

std::vector<DepthwiseConv> Convs() {
  std::vector<DepthwiseConv> convs;
  for (const int64_t channels : {1, 3, 4, 8, 17, 35}) {
    convs.push_back(Conv(channels, 1, 1, 1, 1));
    convs.push_back(Conv(channels, 2, 2, 1, 1));
    convs.push_back(Conv(channels, 1, 0, 1, 2));
    convs.push_back(Conv(channels, 1, -1, 1, 1));
    convs.push_back(Conv(channels, 2, 3, 2, 1));
    convs.push_back(Conv(channels, 1, 6, 3, 2));
  }
  return convs;
}

template <typename T>
std::vector<T> Values(int64_t n, std::mt19937_64& random) {
  std::normal_distribution<T> normal;
  std::vector<T> values(n);
  for (T& value : values) value = random() % 9 == 0 ? T(-0.0) : normal(random);
  return values;
}

// Element [b, y, x, c], or a zero.
template <typename T>
T At(const DepthwiseConv& conv, const std::vector<T>& base, int64_t b,
     int64_t y, int64_t x, int64_t c) {
  const ConvDimension &rows = conv.rows, &columns = conv.columns;
  if (!rows.IsInside(y) || !columns.IsInside(x)) return 0;
  y /= rows.base_dilation;
  x /= columns.base_dilation;
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
template <typename T>
std::vector<T> Want(const DepthwiseConv& conv, const std::vector<T>& base,
                    const std::vector<T>& window, bool is_fused) {
  std::vector<T> want;
  ForEach(conv.batch, conv.rows.result, conv.columns.result, conv.channels,
          [&](int64_t b, int64_t y, int64_t x, int64_t c) {
            T sum = 0;
            for (int64_t p = 0; p < conv.rows.window; ++p) {
              for (int64_t q = 0; q < conv.columns.window; ++q) {
                const T value = At(conv, base, b, conv.rows.At(y, p),
                                   conv.columns.At(x, q), c);
                const T weight =
                    window[(p * conv.columns.window + q) * conv.channels + c];
                const volatile T product = value * weight;
                sum = is_fused ? std::fma(value, weight, sum) : sum + product;
              }
            }
            want.push_back(sum);
          });
  return want;
}

template <typename T>
class DepthwiseConvTest : public ::testing::Test {};
using Types = ::testing::Types<float, double>;
TYPED_TEST_SUITE(DepthwiseConvTest, Types);

TYPED_TEST(DepthwiseConvTest, SumsInOrder) {
  using T = TypeParam;
  testing::ForEachSimdTarget([&] {
    // The baseline of x86 cannot round them together.
    const bool can_fuse = (hwy::SupportedTargets() & HWY_SSE2) == 0;
    std::mt19937_64 random(1);
    for (const DepthwiseConv& conv : Convs()) {
      const auto base = Values<T>(2 * 5 * 7 * conv.channels, random);
      const auto window = Values<T>(3 * 2 * conv.channels, random);
      const std::vector<T> zeros(conv.channels);
      for (const bool is_fused : {false, true}) {
        const auto want = Want(conv, base, window, is_fused && can_fuse);
        std::vector<T> got(want.size(), -1);
        RunDepthwiseConv(conv, base.data(), window.data(), zeros.data(),
                         is_fused, got.data(), {});
        for (size_t i = 0; i < got.size(); ++i) {
          ASSERT_EQ(got[i], want[i]) << i << " of " << conv.channels;
          ASSERT_EQ(std::signbit(got[i]), std::signbit(want[i]));
        }
      }
    }
  });
}

TYPED_TEST(DepthwiseConvTest, SumsGradients) {
  using T = TypeParam;
  testing::ForEachSimdTarget([&] {
    std::mt19937_64 random(1);
    for (const DepthwiseConv& conv : Convs()) {
      const auto base = Values<T>(2 * 5 * 7 * conv.channels, random);
      const auto window = Values<T>(2 * 3 * 2 * conv.channels, random);
      std::vector<double> want, size;
      ForEach(1, conv.rows.result, conv.columns.result, conv.channels,
              [&](int64_t, int64_t y, int64_t x, int64_t c) {
                want.push_back(0);
                size.push_back(0);
                ForEach(2, 3, 2, 1, [&](int64_t b, int64_t p, int64_t q, auto) {
                  const double product =
                      double{At(conv, base, b, conv.rows.At(y, p),
                                conv.columns.At(x, q), c)} *
                      window[((b * 3 + p) * 2 + q) * conv.channels + c];
                  want.back() += product;
                  size.back() += std::abs(product);
                });
              });
      std::vector<T> scratch(DepthwiseKernelGradientScratch(conv));
      std::vector<T> got(want.size(), -1);
      RunDepthwiseKernelGradient(conv, base.data(), window.data(),
                                 scratch.data(), got.data(), {});
      for (size_t i = 0; i < got.size(); ++i) {
        ASSERT_NEAR(got[i], want[i],
                    12 * size[i] * std::numeric_limits<T>::epsilon());
      }
    }
  });
}

TEST(DepthwiseConvTest, ZerosBesideTheBaseAreMultiplied) {
  DepthwiseConv conv = Conv(20, 1, 1, 1, 1);
  const std::vector<float> base(2 * 5 * 7 * 20, 1), zeros(20);
  const std::vector<float> window(3 * 2 * 20,
                                  std::numeric_limits<float>::infinity());
  std::vector<float> got(2 * conv.rows.result * conv.columns.result * 20);
  RunDepthwiseConv(conv, base.data(), window.data(), zeros.data(), true,
                   got.data(), {});
  EXPECT_TRUE(std::isnan(got[0]));
  const int64_t middle = 2 * conv.columns.result + 3;
  EXPECT_TRUE(std::isinf(got[middle * 20]));
}

CallFrame WithGeometry(CallFrame frame) {
  const std::vector<int64_t> ones = {1, 1}, padding = {1, 0};
  return frame.Attr("strides", ones)
      .Attr("padding", padding)
      .Attr("base_dilation", ones)
      .Attr("window_dilation", ones);
}

TEST(ConvGeneralDilatedHandlerTest, ThreadsGiveTheSame) {
  std::mt19937_64 random(1);
  auto base = Values<float>(4 * 90 * 80 * 24, random);
  auto small = Values<float>(3 * 3 * 24, random);
  auto large = Values<float>(4 * 90 * 78 * 24, random);
  std::vector<float> result(4 * 90 * 78 * 24), gradient(3 * 3 * 24);
  const auto run = [&](int64_t threads) {
    const auto conv = WithGeometry(CallFrame()
                                       .Arg(base, {4, 90, 80, 24})
                                       .Arg(small, {3, 3, 24})
                                       .Ret(result, {4, 90, 78, 24})
                                       .Attr("is_fused", int64_t{1})
                                       .Threads(threads))
                          .Run(XlaFfiAccelerateConvGeneralDilatedCpu);
    EXPECT_EQ(conv.message, "");
    const auto grad =
        WithGeometry(CallFrame()
                         .Arg(base, {4, 90, 80, 24})
                         .Arg(large, {4, 90, 78, 24})
                         .Ret(gradient, {3, 3, 24})
                         .Threads(threads))
            .Run(XlaFfiAccelerateConvGeneralDilatedKernelGradientCpu);
    EXPECT_EQ(grad.message, "");
  };
  run(1);
  const auto want = result;
  const auto want_gradient = gradient;
  run(3);
  EXPECT_EQ(result, want);
  EXPECT_EQ(gradient, want_gradient);
}

class HandlerTest : public ::testing::Test {
 protected:
  CallFrame Frame(CallFrame::Dims base, CallFrame::Dims window,
                  CallFrame::Dims result) {
    return WithGeometry(CallFrame()
                            .Arg(base_, base)
                            .Arg(window_, window)
                            .Ret(result_, result)
                            .Attr("is_fused", int64_t{1}));
  }
  CallFrame Good() { return Frame({1, 4, 5, 2}, {2, 2, 2}, {1, 4, 4, 2}); }
  std::string Message(CallFrame frame) {
    return frame.Run(XlaFfiAccelerateConvGeneralDilatedCpu).message;
  }

  std::vector<float> base_ = std::vector<float>(40, 1.0f);
  std::vector<float> window_ = std::vector<float>(8, 1.0f);
  std::vector<float> result_ = std::vector<float>(32);
};

TEST_F(HandlerTest, RefusesWhatDoesNotFit) {
  EXPECT_EQ(Message(Good()), "");
  const std::string op = "xla_ffi_accelerate.conv_general_dilated: ";
  EXPECT_EQ(Message(Frame({4, 5, 2}, {2, 2, 2}, {1, 4, 4, 2})),
            op + "operand base: expected rank 4, got rank 3");
  EXPECT_EQ(Message(Frame({1, 4, 5, 2}, {2, 2, 1}, {1, 4, 4, 2})),
            op + "operand window: expected batch and channels of operand base, "
                 "of shape (1, 4, 5, 2), got shape (2, 2, 1)");
  EXPECT_EQ(Message(Frame({1, 4, 5, 2}, {2, 2, 2}, {2, 4, 4, 2})),
            op + "result: expected batch and channels of operand base, of "
                 "shape (1, 4, 5, 2), got shape (2, 4, 4, 2)");
  EXPECT_EQ(Message(Good().Attr("strides", std::vector<int64_t>{1})),
            op + "attribute strides: expected 2 elements, got 1");
  EXPECT_EQ(Message(Good().Attr("strides", std::vector<int64_t>{1, 0})),
            op + "attribute strides: expected 1 to 2^30, got 0");
  const std::vector<int64_t> huge = {0, int64_t{1} << 40};
  EXPECT_EQ(Message(Good().Attr("padding", huge)),
            op + "attribute padding: expected -1073741824 to 2^30, got "
                 "1099511627776");
  EXPECT_EQ(
      Message(Frame({1, int64_t{1} << 40, 0, 2}, {2, 2, 2}, {1, 0, 4, 2})),
      op + "operand base: expected spatial dimensions up to 2^30, got "
           "shape (1, 1099511627776, 0, 2)");
}

TEST_F(HandlerTest, EmptyArraysAreNone) {
  EXPECT_EQ(Message(Frame({0, 4, 5, 2}, {2, 2, 2}, {0, 4, 4, 2})), "");
  EXPECT_EQ(Message(Frame({1, 0, 0, 2}, {2, 2, 2}, {1, 2, 2, 2})), "");
  EXPECT_EQ(result_[0], 0);
}

TEST_F(HandlerTest, RefusesBadFrames) {
  testing::ExpectRefusesBadFrames(XlaFfiAccelerateConvGeneralDilatedCpu,
                                  Good());
  testing::ExpectRefusesNullData(XlaFfiAccelerateConvGeneralDilatedCpu, Good(),
                                 "xla_ffi_accelerate.conv_general_dilated",
                                 {"operand base", "operand window", "result"});
}

TEST_F(HandlerTest, TheGradientRefusesBadFrames) {
  const CallFrame frame = WithGeometry(CallFrame()
                                           .Arg(base_, {1, 4, 5, 2})
                                           .Arg(window_, {1, 2, 2, 2})
                                           .Ret(result_, {4, 4, 2}));
  testing::ExpectRefusesBadFrames(
      XlaFfiAccelerateConvGeneralDilatedKernelGradientCpu, frame);
  testing::ExpectRefusesNullData(
      XlaFfiAccelerateConvGeneralDilatedKernelGradientCpu, frame,
      "xla_ffi_accelerate.conv_general_dilated_kernel_gradient",
      {"operand base", "operand window", "result"});
}

}  // namespace
}  // namespace xla_ffi_accelerate::conv_general_dilated
