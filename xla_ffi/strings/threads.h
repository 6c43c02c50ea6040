// A parallel loop over XLA's threads. It is compiled once, in the kit's own
// library, because its headers take longer to compile than most kernels.

#ifndef XLA_FFI_STRINGS_THREADS_H_
#define XLA_FFI_STRINGS_THREADS_H_

#include <cstdint>
#include <exception>

#include "xla/ffi/api/c_api.h"
#include "xla_ffi/core/handler_table.h"
#include "xla_ffi/strings/parameters.h"

// The package xla_ffi_kit sets this when it loads the library. If it is null,
// the loops run in the calling thread.
extern "C" {
__attribute__((weak)) XlaFfiKit_ParallelForFn* XlaFfiKit_parallel_for = nullptr;
}

namespace kit {

// XLA's threads, as a parameter of a handler's function.
class Threads {
 public:
  // A null frame: loops run in the calling thread.
  explicit Threads(const XLA_FFI_CallFrame* frame) : frame_(frame) {}

  // Calls fn(begin, end) on consecutive parts that cover [0, size) exactly
  // once, possibly at the same time on several threads, and returns when all
  // returned. `bytes_per_item`: bytes read plus bytes written for one item, or
  // more where much is computed; decides how many parts are worthwhile.
  // Rethrows the first exception of `fn`.
  template <typename Fn>
  void For(int64_t size, int64_t bytes_per_item, const Fn& fn) const {
    if (size <= 0) return;
    if (XlaFfiKit_parallel_for == nullptr || frame_ == nullptr) {
      return fn(0, size);
    }
    Loop<Fn> loop{fn};
    XlaFfiKit_parallel_for(frame_->api, frame_->ctx, size, bytes_per_item,
                           &Loop<Fn>::Run, &loop);
    if (loop.error) std::rethrow_exception(loop.error);
  }

 private:
  template <typename Fn>
  struct Loop {
    const Fn& fn;
    bool failed = false;
    std::exception_ptr error = nullptr;

    static void Run(void* data, int64_t begin, int64_t end) {
      Loop* const loop = static_cast<Loop*>(data);
      try {
        loop->fn(begin, end);
      } catch (...) {
        // <atomic> would take longer to compile than the rest of this file.
        if (!__atomic_test_and_set(&loop->failed, __ATOMIC_RELAXED)) {
          loop->error = std::current_exception();
        }
      }
    }
  };

  const XLA_FFI_CallFrame* frame_;
};

template <>
struct Parameter<Threads> {
  static constexpr Code kCode = {Code::kThreads};
  static Threads Get(const XLA_FFI_CallFrame* frame, int64_t) {
    return Threads(frame);
  }
};

}  // namespace kit

#endif  // XLA_FFI_STRINGS_THREADS_H_
