// Every handler where there is no memory, and while another thread
// changes the environment: a right result or an error, never the end of the
// process.

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <string>
#include <thread>  // NOLINT
#include <vector>

#include "gtest/gtest.h"
#include "xla/ffi/api/ffi.h"
#include "xla_ffi/core/checks.h"
#include "xla_ffi/core/dtypes.h"
#include "xla_ffi/testing/call_frame.h"
#include "xla_ffi/testing/failing_memory.h"
#include "xla_ffi/testing/frame_memory.h"
#include "xla_ffi/testing/frames.h"
#include "xla_ffi/testing/handlers/handlers.h"

#if defined(__SANITIZE_ADDRESS__)
// XLA's header loses a task's 16 bytes where the error that its pool gave has
// no memory either.
extern "C" const char* __lsan_default_suppressions() {
  return "leak:xla_ffi_kit::Executor::Schedule\n";
}
#endif

namespace xla_ffi_kit::testing {
namespace {

namespace ffi = ::xla::ffi;

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
constexpr int64_t kThreads = 4;

// Nearly every handler divides arrays of so many elements among threads ...
constexpr int64_t kElements = 1 << 18;
// ... but for arrays of bytes some need more.
constexpr int64_t kMoreElements = 1 << 21;
constexpr uint32_t kCallsOfForm = 2;

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

using Results = std::vector<std::vector<char>>;

Results TakeResults(CallFrame& frame) {
  Results results;
  for (const CallFrame::Buffer& buffer : frame.rets()) {
    auto* const data = static_cast<char*>(buffer.data);
    results.emplace_back(data, data + BytesOf(buffer));
    std::fill_n(data, results.back().size(), '\x5a');
  }
  return results;
}

// The numbers of an array of floats, real or complex ones; none of others.
std::vector<double> NumbersOf(const std::vector<char>& bytes,
                              ffi::DataType dtype) {
  if (dtype == ffi::C64) dtype = ffi::F32;
  if (dtype == ffi::C128) dtype = ffi::F64;
  std::vector<double> numbers;
  DispatchDtype(RealFloatTypes(), dtype, {}, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto* const elements = reinterpret_cast<const T*>(bytes.data());
    for (size_t i = 0; i < bytes.size() / sizeof(T); ++i) {
      numbers.push_back(static_cast<AccumulationType<T>>(elements[i]));
    }
    return ffi::Error();
  });
  return numbers;
}

// Whether arrays differ by at most `tolerance`, relative to the largest number
// of each; if it is 0, whether they are the same bytes.
bool AreNear(CallFrame& frame, const Results& got, const Results& want,
             double tolerance) {
  for (size_t i = 0; i < got.size(); ++i) {
    if (got[i] == want[i]) continue;
    const auto dtype = static_cast<ffi::DataType>(frame.rets()[i].dtype);
    const std::vector<double> a = NumbersOf(got[i], dtype),
                              b = NumbersOf(want[i], dtype);
    if (tolerance == 0 || b.empty()) return false;
    double most = 0;
    for (const double number : b) most = std::max(most, std::fabs(number));
    // What is rounded to so few bits may be rounded to the next number.
    most *=
        ffi::ByteWidth(dtype) == 2 ? std::max(tolerance, 1.0 / 128) : tolerance;
    for (size_t j = 0; j < b.size(); ++j) {
      if (!(std::fabs(a[j] - b[j]) <= most)) return false;
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
    EXPECT_TRUE(!is_only_one || FailedBytes() < 512);
    return;
  }
  EXPECT_EQ(status.code, XLA_FFI_Error_Code_RESOURCE_EXHAUSTED);
  EXPECT_EQ(status.message.find(target + ": failed to allocate scratch memory"),
            0u)
      << status.message;
}

// How many allocations several threads took.
int64_t TestCall(const HandlerUnderTest& h, CallFrame frame) {
  with_failures.handler = h.execute();
  const float tolerance = h.hook().tolerance;
  EXPECT_EQ(h.Run(frame, 1).message, "");  // what is made once is made now
  EXPECT_EQ(RunWithFailures(frame, kMax, kMax).message, "");
  const int64_t of_one_thread = CountedAllocations();
  frame.Threads(kThreads);
  TakeResults(frame);
  EXPECT_EQ(RunWithFailures(frame, kMax, kMax).message, "");
  const int64_t count = CountedAllocations();
  const Results want = TakeResults(frame);
  const auto is_right = [&] {
    return AreNear(frame, TakeResults(frame), want, tolerance);
  };
  for (const bool is_only_one : {true, false}) {
    for (int64_t k = 0;; ++k) {
      SCOPED_TRACE((is_only_one ? "only allocation " : "allocations from ") +
                   std::to_string(k));
      const Status status =
          RunWithFailures(frame, k, is_only_one ? k + 1 : kMax);
      const bool has_failed = FailedBytes() >= 0;
      if (status.ok()) {
        EXPECT_TRUE(is_right()) << "wrong result";
      } else {
        ExpectNoMemory(status, h.name(), is_only_one);
        EXPECT_TRUE(has_failed);
        EXPECT_EQ(RunWithFailures(frame, kMax, kMax).message, "");
        EXPECT_TRUE(is_right()) << "later";
      }
      if (!has_failed || ::testing::Test::HasFailure()) break;
    }
  }
  return count - of_one_thread;
}

// The most allocations that several threads took in a call of so many elements.
int64_t TestCalls(const HandlerUnderTest& h, int64_t elements) {
  int64_t most = 0;
  for (const Form form : kForms) {
    for (uint32_t seed = 0; seed < kCallsOfForm; ++seed) {
      SCOPED_TRACE("form " + std::to_string(static_cast<int>(form)) +
                   ", call " + std::to_string(seed));
      Choices choices(seed);
      CallFrame frame = h.FitLarge(choices, elements, form);
      const FrameMemory memory = h.GiveMemory(frame);
      most = std::max(most, TestCall(h, frame));
      EXPECT_EQ(memory.Violation(), "");
    }
  }
  return most;
}

TEST(MemoryFailureTest, IsAnErrorOfEveryHandler) {
  ForEachHandler([](const HandlerUnderTest& h) {
    // The allocations that one more thread takes.
    constexpr int64_t kOfThread = 3;
    if (TestCalls(h, kElements) >= kOfThread) return;
    EXPECT_GE(TestCalls(h, kMoreElements), kOfThread)
        << "no call runs on several threads";
  });
}

// Crashes where anything that runs reads an environment that moves.
TEST(EnvironmentTest, MayChangeWhileEveryHandlerRuns) {
  std::atomic<bool> stop{false};
  std::thread setter([&stop] {
    for (int i = 0; !stop; i = (i + 1) % 5'000) {
      setenv(("XLA_FFI_KIT_TEST_" + std::to_string(i)).c_str(), "", 1);
      const std::vector<char> other(8 * i, 'x');  // where the old one was
      if (i == 4'999) clearenv();
    }
  });
  ForEachHandler([](const HandlerUnderTest& h) {
    Choices choices(/*seed=*/0);
    CallFrame frame = h.FitLarge(choices, kElements, Form::kThousandRows);
    const FrameMemory memory = h.GiveMemory(frame);
    for (int run = 0; run < 5; ++run) {
      EXPECT_EQ(h.Run(frame, kThreads).message, "");
    }
  });
  stop = true;
  setter.join();
}

}  // namespace
}  // namespace xla_ffi_kit::testing
