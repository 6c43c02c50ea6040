// The CUDA kernel, run by the emulator and compared with the CPU's.

#include "xla_ffi/ops/relu/relu_cuda.h"

#include <cstdint>
#include <cstring>
#include <vector>

#include "cuda_runtime.h"
#include "gtest/gtest.h"
#include "xla_ffi/core/half.h"
#include "xla_ffi/ops/relu/relu.h"
#include "xla_ffi/ops/relu/relu_handler.h"
#include "xla_ffi/testing/call_frame.h"

namespace xla_ffi_kit {
namespace {

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
    for (const int64_t offset : {0, 1}) {
      Relu(x.data() + offset, count - offset, expected.data() + offset);
      ASSERT_EQ(ReluCuda(x.data() + offset, count - offset, y.data() + offset,
                         nullptr),
                cudaSuccess);
      EXPECT_EQ(std::memcmp(y.data() + offset, expected.data() + offset,
                            (count - offset) * sizeof(T)),
                0)
          << count;
    }
  }
}

TEST(ReluCudaHandlerTest, LaunchesTheKernel) {
  std::vector<float> x = {-1, 2, -3, 4}, y(4);
  const testing::Status status =
      testing::CallFrame().Arg(x, {2, 2}).Ret(y, {2, 2}).Run(XlaFfiKitReluCuda);
  EXPECT_TRUE(status.ok()) << status.message;
  EXPECT_EQ(y, (std::vector<float>{0, 2, 0, 4}));
}

}  // namespace
}  // namespace xla_ffi_kit
