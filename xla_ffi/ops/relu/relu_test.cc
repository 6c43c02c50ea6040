#include "xla_ffi/ops/relu/relu.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "gtest/gtest.h"
#include "xla_ffi/core/dtypes.h"
#include "xla_ffi/core/half.h"
#include "xla_ffi/testing/call_frame.h"
#include "xla_ffi/testing/for_each_simd_target.h"

namespace xla_ffi_kit {
namespace {

using testing::CallFrame;

template <typename T>
void Relu(const T* x, int64_t count, T* y,
          XLA_FFI_Handler* handler = XlaFfiKitReluCpu) {
  constexpr auto kDtype = static_cast<XLA_FFI_DataType>(kDtypeOf<T>);
  const testing::Status status = CallFrame()
                                     .Arg(kDtype, const_cast<T*>(x), {count})
                                     .Ret(kDtype, y, {count})
                                     .Run(handler);
  ASSERT_EQ(status.message, "");
}

template <typename T>
void ExpectEveryPatternRight() {
  constexpr uint32_t kPatterns = 1 << (8 * sizeof(T));
  std::vector<T> x, y(kPatterns);
  for (uint32_t bits = 0; bits < kPatterns; ++bits) {
    x.push_back(T::FromBits(static_cast<BitsOf<T>>(bits)));
  }
  testing::ForEachSimdTarget([&] {
    Relu(x.data(), kPatterns, y.data());
    for (uint32_t bits = 0; bits < kPatterns; ++bits) {
      const float value = static_cast<float>(x[bits]);
      const bool stays = std::isnan(value) || value > 0;
      ASSERT_EQ(y[bits].bits(), stays ? bits : 0) << std::hex << bits;
    }
  });
}

TEST(ReluTest, EveryPatternOfShortFloats) {
  ExpectEveryPatternRight<Float8E5M2>();
  ExpectEveryPatternRight<Float16>();
  ExpectEveryPatternRight<BFloat16>();
}

template <typename T>
class ReluFloatTest : public ::testing::Test {};
using Floats = ::testing::Types<float, double>;
TYPED_TEST_SUITE(ReluFloatTest, Floats);

TYPED_TEST(ReluFloatTest, SpecialValues) {
  using Limits = std::numeric_limits<TypeParam>;
  const TypeParam nan = Limits::quiet_NaN(), tiny = Limits::denorm_min();
  const std::vector<TypeParam> x = {0,
                                    -TypeParam(0),
                                    tiny,
                                    -tiny,
                                    Limits::infinity(),
                                    -Limits::infinity(),
                                    1,
                                    -1,
                                    nan,
                                    -nan,
                                    Limits::max(),
                                    Limits::lowest()};
  const std::vector<TypeParam> expected = {
      0, 0, tiny, 0, Limits::infinity(), 0, 1, 0, nan, nan, Limits::max(), 0};
  std::vector<TypeParam> y(x.size());
  testing::ForEachSimdTarget([&] {
    Relu(x.data(), static_cast<int64_t>(x.size()), y.data());
    for (size_t i = 0; i < x.size(); ++i) {
      EXPECT_EQ(std::isnan(y[i]), std::isnan(expected[i])) << i;
      if (std::isnan(expected[i])) continue;
      EXPECT_EQ(y[i], expected[i]) << i;
      EXPECT_FALSE(std::signbit(y[i])) << i;
    }
  });
}

template <typename T>
class ReluIntegerTest : public ::testing::Test {};
using Integers = ::testing::Types<int8_t, int16_t, int32_t, int64_t>;
TYPED_TEST_SUITE(ReluIntegerTest, Integers);

TYPED_TEST(ReluIntegerTest, EveryLengthAndAlignment) {
  using Limits = std::numeric_limits<TypeParam>;
  testing::ForEachSimdTarget([] {
    for (int64_t count = 0; count <= 300; ++count) {
      for (const int64_t shift : {0, 1, 5}) {
        std::vector<TypeParam> x(count + shift), y(count + shift + 1, 77);
        for (int64_t i = 0; i < count + shift; ++i) {
          x[i] = static_cast<TypeParam>((i * 37) % 101 - 50);
        }
        if (count > 2) x[shift] = Limits::min(), x[shift + 1] = Limits::max();
        Relu(x.data() + shift, count, y.data() + shift);
        for (int64_t i = shift; i < count + shift; ++i) {
          ASSERT_EQ(y[i], x[i] > 0 ? x[i] : 0) << count << ", " << i;
        }
        ASSERT_EQ(y[count + shift], 77);
        Relu(x.data() + shift, count, x.data() + shift);  // in place
        for (int64_t i = shift; i < count + shift; ++i) ASSERT_EQ(x[i], y[i]);
      }
    }
  });
}

TEST(ReluTest, AnyRankAndNoElements) {
  std::vector<float> x = {-1, 2}, y(2);
  const auto run = [&](const CallFrame::Dims& dims) {
    return CallFrame().Arg(x, dims).Ret(y, dims).Run(XlaFfiKitReluCpu).message;
  };
  EXPECT_EQ(run({2, 1}), "");
  EXPECT_EQ(y, (std::vector<float>{0, 2}));
  y[0] = 5;
  EXPECT_EQ(run({}), "");
  EXPECT_EQ(y[0], 0);
  EXPECT_EQ(run({0, 3}), "");
}

TEST(ReluTest, ThreadsCoverTheArray) {
  std::vector<int8_t> x(5'000'001), y(x.size());
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<int8_t>(i);
  const CallFrame::Dims dims = {static_cast<int64_t>(x.size())};
  CallFrame frame;
  frame.Arg(x, dims).Ret(y, dims).Threads(4);
  ASSERT_EQ(frame.Run(XlaFfiKitReluCpu).message, "");
  for (size_t i = 0; i < x.size(); ++i) {
    ASSERT_EQ(y[i], x[i] > 0 ? x[i] : 0) << i;
  }
}

// --- The CUDA kernel, run by the emulator and compared with the CPU's
// ---------

template <typename T>
class ReluCudaTest : public ::testing::Test {};
using Types = ::testing::Types<Float16, BFloat16, float, double, int8_t,
                               int16_t, int32_t, int64_t>;
TYPED_TEST_SUITE(ReluCudaTest, Types);

TYPED_TEST(ReluCudaTest, EveryLengthIsLikeTheCpu) {
  using T = TypeParam;
  for (int64_t count = 1; count <= 600; count += 1 + count / 8) {
    std::vector<T> x(count), y(count), expected(count);
    // Bytes of all kinds: NaNs, infinities and denormals too.
    auto* bytes = reinterpret_cast<uint8_t*>(x.data());
    for (size_t i = 0; i < count * sizeof(T); ++i) {
      bytes[i] = static_cast<uint8_t>(i * i * 37 + i / 3);
    }
    // From the first element, and from the second, which no pack begins with.
    for (const int64_t from : {0, 1}) {
      const T* const in = x.data() + from;
      Relu(in, count - from, expected.data() + from);
      Relu(in, count - from, y.data() + from, XlaFfiKitReluCuda);
      EXPECT_EQ(std::memcmp(y.data() + from, expected.data() + from,
                            (count - from) * sizeof(T)),
                0)
          << count;
    }
  }
}

TEST(ReluTest, MayBeCaptured) {
  EXPECT_EQ(testing::GetMetadata(XlaFfiKitReluCuda).traits,
            XLA_FFI_HANDLER_TRAITS_COMMAND_BUFFER_COMPATIBLE);
}

}  // namespace
}  // namespace xla_ffi_kit
