// The CUDA kernel's steps, run on the CPU for every thread of its launch.

#include "xla_ffi/ops/relu/relu_pack.h"

#include <cstdint>
#include <cstring>
#include <vector>

#include "gtest/gtest.h"
#include "xla_ffi/core/cuda/elementwise.h"
#include "xla_ffi/core/half.h"
#include "xla_ffi/ops/relu/relu.h"

namespace xla_ffi_kit {
namespace {

template <typename T>
class ReluPackTest : public ::testing::Test {};
using Types = ::testing::Types<Float16, BFloat16, float, double, int8_t,
                               int16_t, int32_t, int64_t>;
TYPED_TEST_SUITE(ReluPackTest, Types);

TYPED_TEST(ReluPackTest, EveryLengthIsLikeTheCpu) {
  using T = TypeParam;
  for (int64_t count = 1; count <= 600; count += 1 + count / 8) {
    std::vector<T> x(count), y(count), expected(count);
    // Bytes of all kinds: NaNs, infinities and denormals too.
    auto* bytes = reinterpret_cast<uint8_t*>(x.data());
    for (size_t i = 0; i < count * sizeof(T); ++i) {
      bytes[i] = static_cast<uint8_t>(i * i * 37 + i / 3);
    }
    Relu(x.data(), count, expected.data());
    const LaunchShape shape = PlanElementwise(count, kPackWidth<T>);
    const int64_t threads = shape.blocks * shape.threads;
    for (int64_t thread = 0; thread < threads; ++thread) {
      ForEachPack<kPackWidth<T>>(thread, threads, count,
                                 ReluPack<T>{x.data(), y.data()});
    }
    EXPECT_EQ(std::memcmp(y.data(), expected.data(), count * sizeof(T)), 0)
        << count;
  }
}

}  // namespace
}  // namespace xla_ffi_kit
