// What a call of a handler allocates, beside its operands and results.

#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "xla_ffi/ops/modular_add/modular_add.h"
#include "xla_ffi/ops/relu/relu.h"
#include "xla_ffi/ops/rms_norm/rms_norm_call.h"
#include "xla_ffi/testing/call_frame.h"
#include "xla_ffi/testing/counted_memory.h"

namespace xla_ffi_kit {
namespace {

using testing::CallFrame;

constexpr int64_t kThreads = 3;

int64_t PeakOf(XLA_FFI_Handler* handler, CallFrame frame) {
  return testing::PeakOfCall(handler, frame.Threads(kThreads));
}

class MemoryTest : public ::testing::TestWithParam<int64_t> {
 protected:
  const int64_t n_ = GetParam();
  const int64_t rows_ = 3'000'000 / n_;
  std::vector<float> x_ = std::vector<float>(rows_ * n_, 1.0f), y_ = x_,
                     sum_ = x_;
  std::vector<float> weight_ = std::vector<float>(n_, 1.0f), dweight_ = weight_;
  std::vector<float> scale_ = std::vector<float>(rows_, 1.0f);

  // That of a handler that needs nothing, with one more buffer than it has.
  int64_t Frame() {
    return 1024 +
           PeakOf(XlaFfiKitReluCpu,
                  CallFrame().Arg(x_, {rows_ * n_}).Ret(y_, {rows_ * n_}));
  }
};

TEST_P(MemoryTest, AtMost64KibibytesAThread) {
  if (!testing::kCountsMemory) GTEST_SKIP() << "a sanitizer allocates";
  const CallFrame::Dims all = {rows_, n_};
  const int64_t most = Frame() + kThreads * (int64_t{64} << 10);
  const auto forward = [&] {
    return CallFrame().Attr("eps", 1e-6).Arg(x_, all);
  };
  EXPECT_LE(
      PeakOf(XlaFfiKitRmsNormCpu, forward().Ret(y_, all).Ret(scale_, {rows_})),
      most);
  EXPECT_LE(PeakOf(XlaFfiKitRmsNormCpu, forward()
                                            .Arg(weight_, {n_})
                                            .Arg(x_, all)
                                            .Ret(y_, all)
                                            .Ret(sum_, all)
                                            .Ret(scale_, {rows_})),
            most);
  EXPECT_LE(PeakOf(XlaFfiKitRmsNormBwdCpu, forward().Arg(x_, all).Ret(y_, all)),
            most);
  EXPECT_LE(PeakOf(XlaFfiKitRmsNormWeightBwdCpu, CallFrame()
                                                     .Arg(x_, all)
                                                     .Arg(x_, all)
                                                     .Arg(scale_, {rows_})
                                                     .Arg(weight_, {n_})
                                                     .Arg(x_, all)
                                                     .Ret(y_, all)
                                                     .Ret(dweight_, {n_})),
            most);
  EXPECT_LE(PeakOf(XlaFfiKitModularAddCpu, CallFrame()
                                               .Arg(weight_, {n_})
                                               .Arg(x_, {rows_ * n_})
                                               .Ret(y_, {rows_ * n_})),
            Frame());
}

// Rows that threads divide, rows that they share, and a weight on either side
// of the length from which its gradient is summed by columns.
INSTANTIATE_TEST_SUITE_P(Lengths, MemoryTest,
                         ::testing::Values(1, 1000, 8192, 8193, 300'000,
                                           3'000'000));

}  // namespace
}  // namespace xla_ffi_kit
