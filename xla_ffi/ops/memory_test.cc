// What a call of a handler allocates, beside its operands and results.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <vector>

#include "gtest/gtest.h"
#include "xla_ffi/ops/modular_add/modular_add_handler.h"
#include "xla_ffi/ops/relu/relu_handler.h"
#include "xla_ffi/ops/rms_norm/rms_norm_handler.h"
#include "xla_ffi/testing/call_frame.h"

// Sanitizers have an `operator new` of their own, and memory from theirs comes
// to the `operator delete` here.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define XLA_FFI_KIT_COUNTS_MEMORY 0
#else
#define XLA_FFI_KIT_COUNTS_MEMORY 1
#endif

namespace {

std::atomic<int64_t> live_bytes{0};
std::atomic<int64_t> peak_bytes{0};

}  // namespace

#if XLA_FFI_KIT_COUNTS_MEMORY

namespace {

// The size is kept in front of the memory.
constexpr size_t kHeader = alignof(std::max_align_t);

}  // namespace

void* operator new(size_t bytes) {
  auto* memory = static_cast<char*>(std::malloc(bytes + kHeader));
  if (memory == nullptr) throw std::bad_alloc();
  *reinterpret_cast<size_t*>(memory) = bytes;
  const int64_t live = live_bytes += static_cast<int64_t>(bytes);
  int64_t peak = peak_bytes.load();
  while (live > peak && !peak_bytes.compare_exchange_weak(peak, live)) {
  }
  return memory + kHeader;
}

void operator delete(void* memory) noexcept {
  if (memory == nullptr) return;
  char* const begin = static_cast<char*>(memory) - kHeader;
  live_bytes -= static_cast<int64_t>(*reinterpret_cast<size_t*>(begin));
  std::free(begin);
}

void operator delete(void* memory, size_t) noexcept { operator delete(memory); }

#endif  // XLA_FFI_KIT_COUNTS_MEMORY

namespace xla_ffi_kit {
namespace {

using testing::CallFrame;

constexpr int64_t kThreads = 3;

// The most memory at a time during a call. It includes the call frame's own.
int64_t PeakOf(XLA_FFI_Handler* handler, CallFrame frame) {
  frame.Threads(kThreads);
  const int64_t before = live_bytes;
  peak_bytes = before;
  EXPECT_EQ(frame.Run(handler).message, "");
  return peak_bytes - before;
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
  if (!XLA_FFI_KIT_COUNTS_MEMORY) GTEST_SKIP() << "a sanitizer allocates";
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

TEST(MemoryOfTheTestTest, IsCounted) {
  if (!XLA_FFI_KIT_COUNTS_MEMORY) GTEST_SKIP() << "a sanitizer allocates";
  const int64_t before = live_bytes;
  peak_bytes = before;
  {
    const std::vector<char> bytes(1000);
  }
  EXPECT_EQ(peak_bytes - before, 1000);
}

}  // namespace
}  // namespace xla_ffi_kit
