// The CUDA kernel, run by the emulator and compared with the CPU's.

#include <complex>
#include <cstdint>
#include <cstring>
#include <vector>

#include "gtest/gtest.h"
#include "xla_ffi/core/dtypes.h"
#include "xla_ffi/core/half.h"
#include "xla_ffi/ops/modular_add/modular_add.h"
#include "xla_ffi/testing/call_frame.h"

namespace xla_ffi_kit {
namespace {

using testing::CallFrame;

template <typename T>
void ExpectLikeCpu(int64_t n, int64_t m, int64_t rows, int64_t offset) {
  std::vector<T> b(rows * n + offset), c(rows * m), expected(rows * m);
  for (size_t i = 0; i < b.size(); ++i) b[i] = T(static_cast<float>(i % 91));
  for (size_t i = 0; i < c.size(); ++i) c[i] = T(static_cast<float>(i % 35));
  const auto run = [&](XLA_FFI_Handler* handler, T* a) {
    constexpr auto kDtype = static_cast<XLA_FFI_DataType>(kDtypeOf<T>);
    const testing::Status status =
        CallFrame()
            .Arg(kDtype, b.data() + offset, {rows, n})
            .Arg(c, {rows, m})
            .Ret(kDtype, a, {rows, m})
            .Run(handler);
    ASSERT_EQ(status.message, "");
  };
  run(XlaFfiKitModularAddCpu, expected.data());
  // The result too begins with a pack, or does not.
  for (const int64_t offset_a : {0, 1}) {
    std::vector<T> a(static_cast<size_t>(offset_a + rows * m));
    run(XlaFfiKitModularAddCuda, a.data() + offset_a);
    EXPECT_EQ(std::memcmp(a.data() + offset_a, expected.data(),
                          expected.size() * sizeof(T)),
              0)
        << n << ", " << m << ", " << rows << ", " << offset;
  }
}

TEST(ModularAddCudaTest, EveryShapeIsLikeTheCpu) {
  for (const int64_t n : {1, 3, 4, 16, 33, 128}) {
    for (const int64_t m : {1, 2, 5, 16, 64, 129, 256}) {
      for (const int64_t rows : {1, 2, 7}) {
        ExpectLikeCpu<BFloat16>(n, m, rows, 0);
        ExpectLikeCpu<float>(n, m, rows, 0);
        ExpectLikeCpu<float>(n, m, rows, 1);
        ExpectLikeCpu<double>(n, m, rows, 0);
        ExpectLikeCpu<std::complex<float>>(n, m, rows, 0);
        ExpectLikeCpu<uint8_t>(n, m, rows, 3);
        ExpectLikeCpu<int16_t>(n, m, rows, 1);
      }
    }
  }
}

testing::Status RunShapes(const CallFrame::Dims& b_dims,
                          const CallFrame::Dims& c_dims) {
  std::vector<int32_t> b(6), c(6), a(6);
  return CallFrame().Arg(b, b_dims).Arg(c, c_dims).Ret(a, c_dims).Run(
      XlaFfiKitModularAddCuda);
}

TEST(ModularAddCudaTest, NoElementsAreNoWork) {
  EXPECT_EQ(RunShapes({0, 2}, {0, 3}).message, "");
  EXPECT_EQ(RunShapes({2, 2}, {2, 0}).message, "");
  EXPECT_EQ(RunShapes({0}, {0}).message, "");
}

TEST(ModularAddCudaTest, RefusesThatNothingIsRepeated) {
  EXPECT_EQ(RunShapes({2, 0}, {2, 3}).message,
            "xla_ffi_kit.modular_add: operand b: expected a last axis of at "
            "least one element, got shape (2, 0)");
}

TEST(ModularAddCudaTest, AsksForTheFloorAndMayBeCaptured) {
  const testing::Metadata metadata =
      testing::GetMetadata(XlaFfiKitModularAddCuda);
  EXPECT_TRUE(metadata.status.ok()) << metadata.status.message;
  EXPECT_EQ(metadata.minor_version, XLA_FFI_API_MINOR);
  EXPECT_EQ(metadata.traits,
            static_cast<XLA_FFI_Handler_Traits>(
                XLA_FFI_HANDLER_TRAITS_COMMAND_BUFFER_COMPATIBLE));
}

}  // namespace
}  // namespace xla_ffi_kit
