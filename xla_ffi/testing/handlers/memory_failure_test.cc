// Every handler where there is no memory, and while another thread
// changes the environment: a right result or an error, never the end of the
// process.

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <thread>  // NOLINT
#include <vector>

#include "gtest/gtest.h"
#include "xla/ffi/api/ffi.h"
#include "xla_ffi/core/handler_table.h"
#include "xla_ffi/testing/call_frame.h"
#include "xla_ffi/testing/failing_memory.h"
#include "xla_ffi/testing/handlers/handler_calls.h"

extern "C" const XlaFfiKit_HandlerTable* XLA_FFI_KIT_HANDLER_TABLE();

#if defined(__SANITIZE_ADDRESS__)
// XLA's header loses a task's 16 bytes where the error that its pool gave has
// no memory either.
extern "C" const char* __lsan_default_suppressions() {
  return "leak:xla_ffi_kit::Executor::Schedule\n";
}
#endif

namespace xla_ffi_kit {
namespace {

using testing::CallFrame;
using testing::FailingMemory;
using testing::HandlerCall;
using testing::Status;
namespace ffi = ::xla::ffi;

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
constexpr int64_t kThreads = 4;

// Of arrays that every handler divides among threads.
constexpr int64_t kSize = 1 << 18;

// The handler that is called with allocations [first, last) failing.
struct {
  XLA_FFI_Handler* handler;
  int64_t first, last;
} with_failures;

XLA_FFI_Error* CallWithFailures(XLA_FFI_CallFrame* frame) {
  const FailingMemory memory(with_failures.first, with_failures.last);
  return with_failures.handler(frame);
}

Status RunWithFailures(CallFrame& frame, int64_t first, int64_t last) {
  with_failures.first = first;
  with_failures.last = last;
  return frame.Run(CallWithFailures);
}

int64_t CountOf(const CallFrame::Buffer& buffer) {
  int64_t count = 1;
  for (const int64_t dim : buffer.dims) count *= dim;
  return count;
}

int64_t BytesOf(const CallFrame::Buffer& buffer) {
  const auto dtype = static_cast<ffi::DataType>(buffer.dtype);
  return CountOf(buffer) * static_cast<int64_t>(ffi::ByteWidth(dtype));
}

template <typename T>
void FillWith(const CallFrame::Buffer& buffer) {
  std::minstd_rand random(1);
  auto* const data = static_cast<T*>(buffer.data);
  for (int64_t i = 0; i < CountOf(buffer); ++i) {
    // Of integers what is an index of every dimension.
    const auto value = static_cast<int>(random() % 64);
    data[i] = std::is_integral_v<T> ? T(value) : T((value - 31) / T(7));
  }
}

// Bits that are no NaN of any type, most of them different.
void FillHalf(const CallFrame::Buffer& buffer) {
  std::minstd_rand random(1);
  auto* const data = static_cast<uint16_t*>(buffer.data);
  for (int64_t i = 0; i < CountOf(buffer); ++i) data[i] = random() % 0x3f80;
}

void FillOperands(HandlerCall& call) {
  for (const CallFrame::Buffer& buffer : call.frame.args()) {
    switch (static_cast<ffi::DataType>(buffer.dtype)) {
      case ffi::F32:
        FillWith<float>(buffer);
        break;
      case ffi::F64:
        FillWith<double>(buffer);
        break;
      case ffi::F16:
      case ffi::BF16:
        FillHalf(buffer);
        break;
      case ffi::S64:
        FillWith<int64_t>(buffer);
        break;
      case ffi::PRED:
        FillWith<uint8_t>(buffer);
        break;
      default:
        FillWith<int32_t>(buffer);
    }
  }
  if (call.fill != nullptr) call.fill(call.frame);
}

using Results = std::vector<std::vector<char>>;

Results TakeResults(CallFrame& frame) {
  Results results;
  for (const CallFrame::Buffer& buffer : frame.rets()) {
    auto* const data = static_cast<char*>(buffer.data);
    results.emplace_back(data, data + BytesOf(buffer));
    std::memset(data, 0x5a, results.back().size());
  }
  return results;
}

bool AreEqual(const Results& got, const Results& want, float tolerance) {
  if (tolerance == 0) return got == want;
  for (size_t i = 0; i < got.size(); ++i) {
    const auto* a = reinterpret_cast<const float*>(got[i].data());
    const auto* b = reinterpret_cast<const float*>(want[i].data());
    const size_t n = got[i].size() / sizeof(float);
    float most = 0;
    for (size_t j = 0; j < n; ++j) most = std::max(most, std::fabs(b[j]));
    for (size_t j = 0; j < n; ++j) {
      if (!(std::fabs(a[j] - b[j]) <= tolerance * most)) return false;
    }
  }
  return true;
}

// An error that says what the call lacked. What the checks before a kernel
// throw is XLA's to report, and what the error's own text does, for which there
// is memory where one allocation fails.
void ExpectNoMemory(const Status& status, const std::string& target,
                    bool is_only_one) {
  if (status.message == "XLA FFI call failed: std::bad_alloc") {
    EXPECT_TRUE(!is_only_one || testing::FailedBytes() < 512);
    return;
  }
  EXPECT_EQ(status.code, XLA_FFI_Error_Code_RESOURCE_EXHAUSTED);
  EXPECT_EQ(status.message.find(target + ": failed to allocate scratch memory"),
            0u)
      << status.message;
}

// How many allocations several threads took.
int64_t TestCall(XLA_FFI_Handler* handler, HandlerCall& call,
                 const std::string& target) {
  CallFrame frame = call.frame;
  with_failures.handler = handler;
  FillOperands(call);
  frame.Threads(1);
  EXPECT_EQ(frame.Run(handler).message, "");  // what is made once is made now
  EXPECT_EQ(RunWithFailures(frame, kMax, kMax).message, "");
  const int64_t of_one_thread = testing::CountedAllocations();
  frame.Threads(kThreads);
  TakeResults(frame);
  EXPECT_EQ(RunWithFailures(frame, kMax, kMax).message, "");
  const int64_t count = testing::CountedAllocations();
  const Results want = TakeResults(frame);
  for (const bool is_only_one : {true, false}) {
    for (int64_t k = 0;; ++k) {
      SCOPED_TRACE((is_only_one ? "only allocation " : "allocations from ") +
                   std::to_string(k));
      const Status status =
          RunWithFailures(frame, k, is_only_one ? k + 1 : kMax);
      const bool has_failed = testing::FailedBytes() >= 0;
      const Results got = TakeResults(frame);
      if (status.ok()) {
        EXPECT_TRUE(AreEqual(got, want, call.tolerance)) << "wrong result";
      } else {
        ExpectNoMemory(status, target, is_only_one);
        EXPECT_TRUE(has_failed);
        EXPECT_EQ(RunWithFailures(frame, kMax, kMax).message, "");
        EXPECT_TRUE(AreEqual(TakeResults(frame), want, call.tolerance))
            << "later";
      }
      if (!has_failed || ::testing::Test::HasFailure()) break;
    }
  }
  return count - of_one_thread;
}

TEST(MemoryFailureTest, IsAnErrorOfEveryHandler) {
  auto calls = testing::HandlerCalls(kSize);
  for (const auto& [target, shared] : testing::SharedRowCalls(kSize)) {
    auto& all = calls[target];
    all.insert(all.end(), shared.begin(), shared.end());
  }
  const XlaFfiKit_HandlerTable* table = XLA_FFI_KIT_HANDLER_TABLE();
  ASSERT_GT(table->num_handlers, 0u);
  for (size_t i = 0; i < table->num_handlers; ++i) {
    const XlaFfiKit_Handler& handler = table->handlers[i];
    SCOPED_TRACE(handler.name);
    ASSERT_TRUE(calls.count(handler.name)) << "has no call in this test";
    int64_t most = 0;
    for (HandlerCall& call : calls[handler.name]) {
      SCOPED_TRACE(&call - calls[handler.name].data());
      most = std::max(most, TestCall(handler.execute, call, handler.name));
    }
    // What one more thread takes.
    EXPECT_GE(most, 3) << "no call runs on several threads";
  }
}

// Crashes where anything that runs reads an environment that moves.
TEST(EnvironmentTest, MayChangeWhileEveryHandlerRuns) {
  auto calls = testing::HandlerCalls(kSize);
  std::atomic<bool> stop{false};
  std::thread setter([&stop] {
    for (int i = 0; !stop; i = (i + 1) % 5'000) {
      setenv(("XLA_FFI_KIT_TEST_" + std::to_string(i)).c_str(), "", 1);
      const std::vector<char> other(8 * i, 'x');  // where the old one was
      if (i == 4'999) clearenv();
    }
  });
  const XlaFfiKit_HandlerTable* table = XLA_FFI_KIT_HANDLER_TABLE();
  for (size_t i = 0; i < table->num_handlers; ++i) {
    HandlerCall& call = calls.at(table->handlers[i].name).front();
    FillOperands(call);
    CallFrame frame = call.frame;
    frame.Threads(kThreads);
    for (int run = 0; run < 5; ++run) {
      EXPECT_EQ(frame.Run(table->handlers[i].execute).message, "");
    }
  }
  stop = true;
  setter.join();
}

}  // namespace
}  // namespace xla_ffi_kit
