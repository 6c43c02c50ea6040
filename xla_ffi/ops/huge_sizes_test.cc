// More than 2^31 elements: where an index of 32 bits would wrap.

#include <algorithm>
#include <cstdint>

#include "gtest/gtest.h"
#include "xla/ffi/api/ffi.h"
#include "xla_ffi/ops/relu/relu.h"
#include "xla_ffi/testing/call_frame.h"
#include "xla_ffi/testing/huge_bytes.h"

namespace xla_ffi_kit {
namespace {

using testing::CallFrame;

constexpr int64_t kMost = int64_t{1} << 31;  // that an index of 32 bits reaches
constexpr int64_t kHuge = kMost + 4097;
constexpr auto kS8 = XLA_FFI_DataType_S8;

TEST(HugeSizesTest, ReluInPlace) {
  testing::HugeBytes x(kHuge);
  std::fill(x.begin(), x.end(), int8_t{-1});
  x[kMost - 1] = 3;
  x[kHuge - 1] = 7;
  const auto status = CallFrame()
                          .Arg(kS8, x.data(), {kHuge})
                          .Ret(kS8, x.data(), {kHuge})
                          .Threads(2)
                          .Run(XlaFfiKitReluCpu);
  ASSERT_EQ(status.message, "");
  EXPECT_EQ(x[kMost - 1], 3);
  EXPECT_EQ(x[kHuge - 1], 7);
  EXPECT_EQ(std::count(x.begin(), x.end(), 0), kHuge - 2);
}

}  // namespace
}  // namespace xla_ffi_kit
