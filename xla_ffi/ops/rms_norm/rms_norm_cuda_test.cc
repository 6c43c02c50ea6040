// The CUDA handlers and kernels, run by the emulator.

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "gtest/gtest.h"
#include "xla_ffi/core/half.h"
#include "xla_ffi/ops/rms_norm/rms_norm_call.h"
#include "xla_ffi/ops/rms_norm/rms_norm_testing.h"
#include "xla_ffi/testing/call_frame.h"
#include "xla_ffi/testing/cuda/emulator.h"
#include "xla_ffi/testing/thread_sanitizer.h"

namespace xla_ffi_kit {
namespace {

using rms_norm_testing::Example;
using rms_norm_testing::Platform;
using rms_norm_testing::Shape;
using rms_norm_testing::Variants;
using testing::Device;

Platform Cuda(int64_t partial_sums = 40) {
  return {{XlaFfiKitRmsNormCuda, XlaFfiKitRmsNormBwdCuda,
           XlaFfiKitRmsNormWeightBwdCuda},
          /*threads=*/0,
          partial_sums};
}

Example<float> Called(size_t variant, const Shape& shape,
                      const Platform& platform = Cuda()) {
  Example<float> example(Variants()[variant], shape);
  example.Run(platform);
  return example;
}

template <typename T>
class RmsNormCudaTest : public ::testing::Test {
 protected:
  void TearDown() override { Device() = {}; }

  // Every variant, in both orders of threads.
  static void ExpectRight(const Shape& shape) {
    for (const bool is_backwards : testing::Orders()) {
      Device().is_backwards = is_backwards;
      rms_norm_testing::ExpectRight<T>(Cuda(), shape);
    }
  }
};

// ThreadSanitizer takes minutes for each.
using Types =
    std::conditional_t<testing::kIsThreadSanitizer, ::testing::Types<float>,
                       ::testing::Types<Float16, BFloat16, float, double>>;
TYPED_TEST_SUITE(RmsNormCudaTest, Types);

TYPED_TEST(RmsNormCudaTest, EveryLengthMatchesTheFormula) {
  for (const int64_t n : {1, 2, 3, 7, 8, 40, 63, 64, 250, 1024, 2047, 4100}) {
    this->ExpectRight({1, 3, n, n % 2});
  }
  for (const int64_t n : {3, 8}) this->ExpectRight({1, 3, n, 1 - n % 2});
}

TYPED_TEST(RmsNormCudaTest, RowsTooLongForRegistersAndForSharedMemory) {
  // As few as do not fit: the emulator takes its time for each column.
  constexpr int64_t kVectors = 2050;
  constexpr int64_t n = kVectors * 16 / static_cast<int64_t>(sizeof(TypeParam));
  this->ExpectRight({1, 2, n, 1});
  // The backward has a cluster, then the forward.
  for (const int64_t shared : {227, 40, 24}) {
    Device().max_shared_bytes = shared * 1024;
    this->ExpectRight({1, 2, n});
  }
  // Without clusters.
  Device().major = 8;
  this->ExpectRight({1, 2, n});
}

TYPED_TEST(RmsNormCudaTest, ManyRowsHaveManyPartialSums) {
  this->ExpectRight({1, 777, 1});
  for (const int64_t n : {40, 250}) this->ExpectRight({1, 300, n});
}

TYPED_TEST(RmsNormCudaTest, EachGroupOfRowsHasItsWeight) {
  for (const int64_t n : {3, 64}) {
    this->ExpectRight({2, 1, n});
    this->ExpectRight({2, 3, n});
  }
  this->ExpectRight({2, 1, 8200});
}

using FloatTest = RmsNormCudaTest<float>;

TEST_F(FloatTest, TheWorkspaceMayBeOfAnySize) {
  for (const int64_t n : {7, 64, 528}) {
    for (const Shape& shape : {Shape{1, 600, n}, {2, 3, n}}) {
      for (const int64_t most : {1, 2, 3, 1000}) {
        Called(8, shape, Cuda(most)).ExpectRight();
      }
    }
  }
}

// The same bits from run to run, whatever thread comes first, on each of three
// GPUs.
TEST_F(FloatTest, TheGradientOfAWeightIsTheSameEachTime) {
  for (const Shape& shape :
       {Shape{1, 999, 64}, {1, 77, 2048}, {1, 9, 20000}, {1, 33, 63}}) {
    for (const int processors : {3, 8, 16}) {
      Device().processors = processors;
      Device().is_backwards = false;
      const auto first = Called(9, shape);
      Device().is_backwards = true;
      const auto second = Called(9, shape);
      for (const size_t result : {0, 1}) {
        EXPECT_EQ(first.result(result), second.result(result));
      }
    }
  }
}

TEST_F(FloatTest, NumbersOfLaunches) {
  const auto launches = [](size_t variant, const Shape& shape) {
    testing::Launches().clear();
    Called(variant, shape);
    return testing::Launches().size();
  };
  Device().processors = 16;
  for (const int64_t n : {64, 8192, 65536}) {
    for (size_t v = 0; v < 8; ++v) EXPECT_EQ(launches(v, {1, 9, n}), 1U);
    EXPECT_EQ(launches(8, {1, 9, n}), 2U);
    EXPECT_TRUE(testing::Launches().back().is_early);
  }
  // One element at a time, or more than any cluster holds: x and ct twice.
  for (const int64_t n : {63, 1 << 17}) EXPECT_EQ(launches(8, {1, 9, n}), 3U);
  // Without rows there is dweight, without weights nothing.
  EXPECT_EQ(launches(8, {1, 0, 3}), 2U);
  for (const size_t v : {0, 5, 8}) EXPECT_EQ(launches(v, {0, 9, 3}), 0U);
  // Older GPUs launch nothing early.
  Device().major = 8;
  EXPECT_EQ(launches(8, {1, 9, 64}), 2U);
  EXPECT_FALSE(testing::Launches().back().is_early);
}

TEST_F(FloatTest, LongRowsHaveAClusterWhereThereIsRoom) {
  const auto cluster = [] {
    Called(3, {1, 3, 80000}).ExpectRight();
    return testing::Launches().back().cluster;
  };
  EXPECT_EQ(cluster(), 8);
  Device().processors = 16;
  EXPECT_EQ(cluster(), 16);
  Device().processors = 3;
  EXPECT_EQ(cluster(), 1);
  Device().major = 8;
  EXPECT_EQ(cluster(), 1);
}

// Rows of a part of a warp, and of one, share a block; of several warps, as
// many as fill a GPU, a thread has more vectors.
TEST_F(FloatTest, ManyRows) {
  for (const int64_t n : {32, 252, 528, 2100}) {
    for (size_t v = 0; v < 7; ++v) {
      const int64_t rows = n == 32 ? 1030 : n == 252 ? 515 : 260;
      Called(v, {1, rows, n}).ExpectRight();
      EXPECT_EQ(testing::Launches().back().blocks < rows, n < 256);
    }
  }
}

TEST_F(FloatTest, SumsOfLongRowsAndOfManyDoNotDrift) {
  for (const Shape& shape : {Shape{1, 1, 1 << 22}, {1, 1 << 16, 8}}) {
    Example<float> example(Variants()[shape.rows == 1 ? 1 : 8], shape);
    for (size_t i = 0; i < example.operands(); ++i) {
      for (float& value : example.operand(i)) value = 0.1f;
    }
    example.Run(Cuda(/*partial_sums=*/1000));
    example.ExpectRight();
  }
}

TEST_F(FloatTest, MayBeCaptured) {
  for (XLA_FFI_Handler* handler : Cuda().handlers) {
    EXPECT_EQ(testing::GetMetadata(handler).traits,
              XLA_FFI_HANDLER_TRAITS_COMMAND_BUFFER_COMPATIBLE);
  }
}

}  // namespace
}  // namespace xla_ffi_kit
