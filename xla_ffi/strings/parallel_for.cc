// The parallel loop that the kit's library lends to libraries without one; see
// threads.h.

#include "xla_ffi/core/parallel_for.h"

#include <cstdint>
#include <memory>
#include <utility>

#include "xla/ffi/api/c_api.h"
#include "xla_ffi/core/handler_table.h"

namespace {

// XLA's threads by its C API: xla::ffi::ThreadPool is made by its decoder only.
class Pool {
 public:
  Pool(const XLA_FFI_Api* api, XLA_FFI_ExecutionContext* ctx)
      : api_(api), ctx_(ctx) {}

  int64_t num_threads() const {
    int64_t count = 0;
    XLA_FFI_ThreadPool_NumThreads_Args args = {};
    args.struct_size = XLA_FFI_ThreadPool_NumThreads_Args_STRUCT_SIZE;
    args.ctx = ctx_;
    args.num_threads = &count;
    Forget(api_->XLA_FFI_ThreadPool_NumThreads(&args));
    return count;
  }

  template <typename F>
  void Schedule(F f) {
    auto task = std::make_unique<F>(std::move(f));
    XLA_FFI_ThreadPool_Schedule_Args args = {};
    args.struct_size = XLA_FFI_ThreadPool_Schedule_Args_STRUCT_SIZE;
    args.ctx = ctx_;
    args.task = [](void* data) {
      F* const task = static_cast<F*>(data);
      (*task)();
      delete task;
    };
    args.data = task.get();
    XLA_FFI_Error* const error = api_->XLA_FFI_ThreadPool_Schedule(&args);
    task.release();
    // The caller does what no thread takes.
    if (Forget(error)) args.task(args.data);
  }

 private:
  bool Forget(XLA_FFI_Error* error) const {
    if (error == nullptr) return false;
    XLA_FFI_Error_Destroy_Args args = {};
    args.struct_size = XLA_FFI_Error_Destroy_Args_STRUCT_SIZE;
    args.error = error;
    api_->XLA_FFI_Error_Destroy(&args);
    return true;
  }

  const XLA_FFI_Api* api_;
  XLA_FFI_ExecutionContext* ctx_;
};

void ParallelFor(const XLA_FFI_Api* api, XLA_FFI_ExecutionContext* ctx,
                 int64_t size, int64_t bytes_per_item,
                 void (*run)(void* data, int64_t begin, int64_t end),
                 void* data) {
  Pool pool(api, ctx);
  xla_ffi_kit::ParallelFor(
      pool, size, bytes_per_item,
      [=](int64_t begin, int64_t end) noexcept { run(data, begin, end); });
}

}  // namespace

extern "C" {
XlaFfiKit_ParallelForFn* XlaFfiKit_parallel_for = &ParallelFor;
}
