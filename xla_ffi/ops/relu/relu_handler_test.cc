#include "xla_ffi/ops/relu/relu_handler.h"

#include <complex>
#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "xla_ffi/testing/bad_frames.h"
#include "xla_ffi/testing/call_frame.h"

namespace xla_ffi_kit {
namespace {

using testing::CallFrame;
using testing::ExpectInvalid;
using testing::ExpectRefusesBadFrames;

TEST(ReluHandlerTest, AnyRankAndNoElements) {
  std::vector<float> x = {-1, 2}, y(2);
  EXPECT_TRUE(
      CallFrame().Arg(x, {2, 1}).Ret(y, {2, 1}).Run(XlaFfiKitReluCpu).ok());
  EXPECT_EQ(y, (std::vector<float>{0, 2}));
  y[0] = 5;
  EXPECT_TRUE(CallFrame().Arg(x, {}).Ret(y, {}).Run(XlaFfiKitReluCpu).ok());
  EXPECT_EQ(y[0], 0);
  EXPECT_TRUE(
      CallFrame().Arg(x, {0, 3}).Ret(y, {0, 3}).Run(XlaFfiKitReluCpu).ok());
}

TEST(ReluHandlerTest, ThreadsCoverTheArray) {
  std::vector<int8_t> x(5'000'001), y(x.size());
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<int8_t>(i);
  const CallFrame::Dims dims = {static_cast<int64_t>(x.size())};
  ASSERT_TRUE(CallFrame()
                  .Arg(x, dims)
                  .Ret(y, dims)
                  .Threads(4)
                  .Run(XlaFfiKitReluCpu)
                  .ok());
  for (size_t i = 0; i < x.size(); ++i) {
    ASSERT_EQ(y[i], x[i] > 0 ? x[i] : 0) << i;
  }
}

TEST(ReluHandlerTest, RefusesWhatItCannotDo) {
  std::vector<float> x(2);
  std::vector<std::complex<float>> z(2);
  ExpectInvalid(CallFrame().Arg(x, {2}).Ret(x, {1}).Run(XlaFfiKitReluCpu),
                "xla_ffi_kit.relu: result y: expected shape (2) like operand "
                "x, got shape (1)");
  ExpectInvalid(
      CallFrame().Arg(z, {2}).Ret(z, {2}).Run(XlaFfiKitReluCpu),
      "xla_ffi_kit.relu: operand x: expected one of the dtypes f8e5m2, "
      "f16, bf16, f32, f64, s8, s16, s32, s64, got c64");
  ExpectInvalid(
      CallFrame().Arg(x, {2}).Ret(x, {2}).Attr("a", 1.0).Run(XlaFfiKitReluCpu),
      "xla_ffi_kit.relu: attributes: expected none, got {a}");
  std::vector<float> y(2);
  ExpectRefusesBadFrames(XlaFfiKitReluCpu,
                         CallFrame().Arg(x, {1, 2}).Ret(y, {1, 2}));
}

TEST(ReluHandlerTest, RefusesNullDataOfElements) {
  std::vector<float> x(2);
  testing::ExpectRefusesNullData(XlaFfiKitReluCpu,
                                 CallFrame().Arg(x, {2}).Ret(x, {2}),
                                 "xla_ffi_kit.relu", {"operand x", "result y"});
  EXPECT_TRUE(CallFrame()
                  .Arg(XLA_FFI_DataType_F32, nullptr, {2, 0})
                  .Ret(XLA_FFI_DataType_F32, nullptr, {2, 0})
                  .Run(XlaFfiKitReluCpu)
                  .ok());
}

}  // namespace
}  // namespace xla_ffi_kit
