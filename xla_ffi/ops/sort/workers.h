// The threads a kernel may use, without the type of the pool they come from.

#ifndef XLA_FFI_OPS_SORT_WORKERS_H_
#define XLA_FFI_OPS_SORT_WORKERS_H_

#include <cstdint>
#include <functional>

namespace xla_ffi_kit {

struct Workers {
  // How many threads there are, 1 or more.
  int64_t threads = 1;

  // run(n, task) calls task(i) once for each 0 <= i < n, possibly at the same
  // time on several threads, and returns when all returned. Tasks must not
  // throw.
  std::function<void(int64_t, const std::function<void(int64_t)>&)> run =
      [](int64_t n, const std::function<void(int64_t)>& task) {
        for (int64_t i = 0; i < n; ++i) task(i);
      };
};

}  // namespace xla_ffi_kit

#endif  // XLA_FFI_OPS_SORT_WORKERS_H_
