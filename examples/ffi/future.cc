// Asynchronous results: a handler that returns before its work is done.
//
// examples.later: (x f64[n]) -> 2 x, in `parts` tasks on XLA's thread pool. The
// handler returns a Future, and its thread is free for other work; XLA keeps
// operands and results alive until the last task has counted down. A negative
// element is an error of its task, and the first such error is the call's.

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "xla/ffi/api/ffi.h"

namespace {

namespace ffi = ::xla::ffi;

ffi::Error DoublePart(const double* x, double* y, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) {
    if (x[i] < 0) {
      return ffi::Error(ffi::ErrorCode::kOutOfRange,
                        "examples.later: operand x: expected elements >= 0, "
                        "got a negative one at " +
                            std::to_string(i));
    }
    y[i] = 2 * x[i];
  }
  return ffi::Error::Success();
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
    pool.Schedule([promise, in = x.typed_data(), out = y->typed_data(), n, part,
                   parts]() mutable {
      promise.CountDown(
          DoublePart(in, out, n * part / parts, n * (part + 1) / parts));
    });
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
