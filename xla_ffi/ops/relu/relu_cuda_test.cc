// The CUDA kernel, run by the emulator and compared with the CPU's.

#include <cstdint>
#include <cstring>
#include <vector>

#include "gtest/gtest.h"
#include "xla_ffi/core/half.h"
#include "xla_ffi/ops/relu/relu.h"
#include "xla_ffi/testing/call_frame.h"

namespace xla_ffi_kit {
namespace {

using testing::CallFrame;

template <typename T>
void Run(XLA_FFI_Handler* handler, T* x, int64_t count, T* y) {
  constexpr auto kDtype = static_cast<XLA_FFI_DataType>(kDtypeOf<T>);
  CallFrame frame;
  frame.Arg(kDtype, x, {count}).Ret(kDtype, y, {count});
  ASSERT_EQ(frame.Run(handler).message, "");
}

template <typename T>
class ReluCudaKernelTest : public ::testing::Test {};
using Types = ::testing::Types<Float16, BFloat16, float, double, int8_t,
                               int16_t, int32_t, int64_t>;
TYPED_TEST_SUITE(ReluCudaKernelTest, Types);

TYPED_TEST(ReluCudaKernelTest, EveryLengthIsLikeTheCpu) {
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
      Run(XlaFfiKitReluCpu, x.data() + offset, count - offset,
          expected.data() + offset);
      Run(XlaFfiKitReluCuda, x.data() + offset, count - offset,
          y.data() + offset);
      EXPECT_EQ(std::memcmp(y.data() + offset, expected.data() + offset,
                            (count - offset) * sizeof(T)),
                0)
          << count;
    }
  }
}

TEST(ReluCudaTest, AsksForTheFloorAndMayBeCaptured) {
  const testing::Metadata metadata = testing::GetMetadata(XlaFfiKitReluCuda);
  EXPECT_TRUE(metadata.status.ok()) << metadata.status.message;
  EXPECT_EQ(metadata.major_version, XLA_FFI_API_MAJOR);
  EXPECT_EQ(metadata.minor_version, XLA_FFI_API_MINOR);
  EXPECT_EQ(metadata.traits,
            static_cast<XLA_FFI_Handler_Traits>(
                XLA_FFI_HANDLER_TRAITS_COMMAND_BUFFER_COMPATIBLE));
}

}  // namespace
}  // namespace xla_ffi_kit
