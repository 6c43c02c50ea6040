// Effects: errors, results that come later, writes, and their order.

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <mutex>  // NOLINT
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "xla/ffi/api/ffi.h"

namespace ffi_examples {

namespace ffi = ::xla::ffi;

// --- Errors: every code, and an exception
// examples.fail: fails with the code and the message of its attributes; with
// code 0 it succeeds, with -1 it throws. In JAX an error ends the program and
// arrives as jax.errors.JaxRuntimeError, whose text begins with the code.

namespace {

// The codes, in the order of their numbers.
constexpr ffi::ErrorCode kCodes[] = {
    ffi::ErrorCode::kOk,
    ffi::ErrorCode::kCancelled,
    ffi::ErrorCode::kUnknown,
    ffi::ErrorCode::kInvalidArgument,
    ffi::ErrorCode::kDeadlineExceeded,
    ffi::ErrorCode::kNotFound,
    ffi::ErrorCode::kAlreadyExists,
    ffi::ErrorCode::kPermissionDenied,
    ffi::ErrorCode::kResourceExhausted,
    ffi::ErrorCode::kFailedPrecondition,
    ffi::ErrorCode::kAborted,
    ffi::ErrorCode::kOutOfRange,
    ffi::ErrorCode::kUnimplemented,
    ffi::ErrorCode::kInternal,
    ffi::ErrorCode::kUnavailable,
    ffi::ErrorCode::kDataLoss,
    ffi::ErrorCode::kUnauthenticated,
};

constexpr int32_t kNumCodes = sizeof(kCodes) / sizeof(kCodes[0]);

ffi::Error Fail(ffi::ResultBufferR0<ffi::S32> y, int32_t code,
                std::string_view message) {
  // XLA catches exceptions, and reports them as UNKNOWN.
  if (code == -1) throw std::runtime_error(std::string(message));
  if (code < -1 || code >= kNumCodes) {
    return ffi::Error::InvalidArgument(
        "examples.fail: attribute code: expected -1 to 16, got " +
        std::to_string(code));
  }
  *y->typed_data() = code;
  const ffi::Error error(kCodes[code], std::string(message));
  return error.success() ? ffi::Error::Success() : error;
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(ExampleFail, Fail,
                              ffi::Ffi::Bind()
                                  .Ret<ffi::BufferR0<ffi::S32>>()  // y
                                  .Attr<int32_t>("code")
                                  .Attr<std::string_view>("message"));

// --- Asynchronous results: a handler that returns before its work is done
// examples.later: (x f64[n]) -> 2 x, in `parts` tasks on XLA's thread pool. The
// handler returns a Future, and its thread is free for other work; XLA keeps
// operands and results alive until the last task has counted down. A negative
// element is an error of its task, and the first such error is the call's.

namespace {

// Returns where the first negative element is, -1 if there is none.
int64_t DoublePart(const double* x, double* y, int64_t begin,
                   int64_t end) noexcept {
  for (int64_t i = begin; i < end; ++i) {
    if (x[i] < 0) return i;
    y[i] = 2 * x[i];
  }
  return -1;
}

// What a task throws ends the process, so where there is no memory for a
// sentence it does with a word that needs none. (XLA copies the sentence again:
// a handler that must survive that, too, has only words.)
void CountDown(ffi::CountDownPromise& promise, int64_t negative) noexcept {
  if (negative < 0) {
    promise.CountDown();
    return;
  }
  ffi::Error error(ffi::ErrorCode::kOutOfRange, "negative");
  try {
    error = ffi::Error(ffi::ErrorCode::kOutOfRange,
                       "examples.later: operand x: expected elements >= 0, "
                       "got a negative one at " +
                           std::to_string(negative));
  } catch (const std::bad_alloc&) {
  }
  promise.CountDown(error);
}

ffi::Future Failed(ffi::Error error) {
  ffi::Promise promise;
  ffi::Future future(promise);
  promise.SetError(std::move(error));
  return future;
}

// A future that is complete at once costs little: fine for small work.
ffi::Future Done() {
  ffi::Promise promise;
  ffi::Future future(promise);
  promise.SetAvailable();
  return future;
}

ffi::Future Later(ffi::ThreadPool pool, ffi::BufferR1<ffi::F64> x,
                  ffi::ResultBufferR1<ffi::F64> y, int64_t parts) {
  const int64_t n = static_cast<int64_t>(x.element_count());
  if (!(x.dimensions() == y->dimensions()) || parts < 1 || parts > 1024) {
    return Failed(ffi::Error::InvalidArgument(
        "examples.later: expected a result as long as operand x, 1 to 1024 "
        "parts"));
  }
  if (n == 0) return Done();
  ffi::CountDownPromise promise(parts);
  ffi::Future future(promise);
  for (int64_t part = 0; part < parts; ++part) {
    // By value: this function has returned when the task runs. A last task may
    // even be done, and the buffers gone, before Schedule() returns.
    auto task = [promise, in = x.typed_data(), out = y->typed_data(), n, part,
                 parts]() mutable noexcept {
      CountDown(promise,
                DoublePart(in, out, n * part / parts, n * (part + 1) / parts));
    };
    auto for_pool = task;
    try {
      pool.Schedule(std::move(for_pool));
    } catch (const std::bad_alloc&) {
      task();  // to give up would leave other tasks with buffers that are gone
    }
  }
  return future;
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(ExampleLater, Later,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .Arg<ffi::BufferR1<ffi::F64>>()  // x
                                  .Ret<ffi::BufferR1<ffi::F64>>()  // y
                                  .Attr<int64_t>("parts"));

// --- Side effects: calls that must happen although nobody reads their result
// examples.log: (x s32[]) -> x, and appends x to a log of the process;
// examples.read_log: () -> (count s32[], last s32[8]). In JAX,
// ffi_call(..., has_side_effect=True) keeps XLA from removing such a call or
// doing two equal ones at once. It orders nothing: calls run in order where one
// takes the other's result, or a token of it.

namespace {

struct Log {
  std::mutex mutex;
  std::vector<int32_t> entries;
};

Log& TheLog() {
  static auto* log = new Log;  // never deleted: a late call may still write
  return *log;
}

ffi::Error Append(ffi::BufferR0<ffi::S32> x, ffi::ResultBufferR0<ffi::S32> y) {
  std::lock_guard<std::mutex> lock(TheLog().mutex);
  TheLog().entries.push_back(*x.typed_data());
  *y->typed_data() = *x.typed_data();
  return ffi::Error::Success();
}

ffi::Error Read(ffi::ResultBufferR0<ffi::S32> count,
                ffi::ResultBufferR1<ffi::S32> last) {
  std::lock_guard<std::mutex> lock(TheLog().mutex);
  const std::vector<int32_t>& entries = TheLog().entries;
  const size_t n = std::min(entries.size(), last->element_count());
  std::fill_n(last->typed_data(), last->element_count(), 0);
  std::copy(entries.end() - n, entries.end(), last->typed_data());
  *count->typed_data() = static_cast<int32_t>(entries.size());
  return ffi::Error::Success();
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(ExampleLog, Append,
                              ffi::Ffi::Bind()
                                  .Arg<ffi::BufferR0<ffi::S32>>()    // x
                                  .Ret<ffi::BufferR0<ffi::S32>>());  // x

XLA_FFI_DEFINE_HANDLER_SYMBOL(ExampleReadLog, Read,
                              ffi::Ffi::Bind()
                                  .Ret<ffi::BufferR0<ffi::S32>>()    // count
                                  .Ret<ffi::BufferR1<ffi::S32>>());  // last

// --- Tokens: values without data that order calls
// examples.stamp: (after token) -> (token, tick s32[]): a process-wide clock
// that ticks once per call. Two calls whose tokens are chained run in that
// order; without tokens XLA may run them in any order.

namespace {

ffi::Error Stamp(ffi::Token /*after*/, ffi::Result<ffi::Token> token,
                 ffi::ResultBufferR0<ffi::S32> tick) {
  static std::atomic<int32_t> clock = 0;
  if (token->size_bytes() != 0) {
    return ffi::Error::Internal("examples.stamp: a token carries no data");
  }
  *tick->typed_data() = ++clock;
  return ffi::Error::Success();
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(ExampleStamp, Stamp,
                              ffi::Ffi::Bind()
                                  .Arg<ffi::Token>()                 // after
                                  .Ret<ffi::Token>()                 // token
                                  .Ret<ffi::BufferR0<ffi::S32>>());  // tick

}  // namespace ffi_examples
