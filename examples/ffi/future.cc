// Asynchronous results: a handler that returns before its work is done.
//
// examples.later: (x f64[n]) -> 2 x, in `parts` tasks on XLA's thread pool. The
// handler returns a Future, and its thread is free for other work; XLA keeps
// operands and results alive until the last task has counted down. A negative
// element is an error of its task, and the first such error is the call's.

#include <algorithm>
#include <cstdint>
#include <new>
#include <string>
#include <utility>

#include "xla/ffi/api/ffi.h"

namespace {

namespace ffi = ::xla::ffi;

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
