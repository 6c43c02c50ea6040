// The CUDA kernel and its handler, run by the emulator.

#include <cmath>
#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "xla_ffi/testing/call_frame.h"

XLA_FFI_DECLARE_HANDLER_SYMBOL(RmsNormCuda);

namespace {

using xla_ffi_kit::testing::CallFrame;
using xla_ffi_kit::testing::Status;

TEST(RmsNormCudaTest, MoreRowsThanABlockHasThreads) {
  constexpr int64_t kRows = 300, kN = 3;
  std::vector<float> x(kRows * kN), y(kRows * kN);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 7) - 2;
  const Status status = CallFrame()
                            .Arg(x, {kRows, kN})
                            .Ret(y, {kRows, kN})
                            .Attr("eps", 0.5f)
                            .Run(RmsNormCuda);
  ASSERT_TRUE(status.ok()) << status.message;
  for (int64_t i = 0; i < kRows * kN; i += kN) {
    const float squares =
        x[i] * x[i] + x[i + 1] * x[i + 1] + x[i + 2] * x[i + 2];
    for (int64_t j = i; j < i + kN; ++j) {
      ASSERT_NEAR(y[j], x[j] / std::sqrt(squares / kN + 0.5f), 1e-6) << j;
    }
  }
}

TEST(RmsNormCudaTest, NoRowsLaunchNothing) {
  std::vector<float> x;
  EXPECT_TRUE(CallFrame()
                  .Arg(x, {0, 3})
                  .Ret(x, {0, 3})
                  .Attr("eps", 0.5f)
                  .Run(RmsNormCuda)
                  .ok());
}

}  // namespace
