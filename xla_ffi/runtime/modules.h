// The modules that are loaded, for each context.

#ifndef XLA_FFI_RUNTIME_MODULES_H_
#define XLA_FFI_RUNTIME_MODULES_H_

#include "xla/ffi/api/ffi.h"
#include "xla_ffi/runtime/driver.h"
#include "xla_ffi/runtime/launch.h"

namespace xla_ffi_kit::launch {

// Makes the context of a stream the thread's current one.
class InContextOf {
 public:
  InContextOf(const Driver& driver, Stream stream);
  ~InContextOf();
  InContextOf(const InContextOf&) = delete;
  InContextOf& operator=(const InContextOf&) = delete;

  Context context() const { return context_; }
  Status status() const { return status_; }

 private:
  const Driver& driver_;
  Context context_ = nullptr;
  Status status_ = kSuccess;
  bool is_pushed_ = false;
};

// The kernel in the current context, which is `context`; loaded if need be, and
// then for as long as the process lives.
xla::ffi::ErrorOr<Function> FunctionOf(const Driver& driver, Context context,
                                       const Kernel& kernel);

}  // namespace xla_ffi_kit::launch

#endif  // XLA_FFI_RUNTIME_MODULES_H_
