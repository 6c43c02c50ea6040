// What handlers on sort keys share: from FFI's types to the kernels' own.

#ifndef XLA_FFI_OPS_SORT_HANDLER_TYPES_H_
#define XLA_FFI_OPS_SORT_HANDLER_TYPES_H_

#include <cstdint>
#include <functional>
#include <optional>

#include "xla/ffi/api/ffi.h"
#include "xla_ffi/core/executor.h"
#include "xla_ffi/core/parallel_for.h"
#include "xla_ffi/ops/sort/pack.h"
#include "xla_ffi/ops/sort/workers.h"

namespace xla_ffi_kit {

// Nothing for a dtype that cannot be a key.
inline std::optional<KeyKind> KindOf(xla::ffi::DataType dtype) {
  switch (dtype) {
    case xla::ffi::DataType::PRED:
    case xla::ffi::DataType::U8:
    case xla::ffi::DataType::U16:
    case xla::ffi::DataType::U32:
    case xla::ffi::DataType::U64:
      return KeyKind::kUnsigned;
    case xla::ffi::DataType::S8:
    case xla::ffi::DataType::S16:
    case xla::ffi::DataType::S32:
    case xla::ffi::DataType::S64:
      return KeyKind::kSigned;
    case xla::ffi::DataType::F16:
      return KeyKind::kF16;
    case xla::ffi::DataType::BF16:
      return KeyKind::kBF16;
    case xla::ffi::DataType::F32:
      return KeyKind::kF32;
    case xla::ffi::DataType::F64:
      return KeyKind::kF64;
    default:
      return std::nullopt;
  }
}

// The threads of XLA's pool; the calling one works too, so that nothing waits
// for a thread that is not there.
inline Workers WorkersOf(xla::ffi::ThreadPool& pool) {
  Workers workers;
  workers.threads = Executor(pool).num_threads();
  workers.run = [&pool](int64_t n, const std::function<void(int64_t)>& task) {
    // Every task is worth a thread: the kernel has seen to that.
    constexpr int64_t kBytes = kParallelForMinBytes;
    ParallelFor(pool, n, kBytes, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) task(i);
    });
  };
  return workers;
}

}  // namespace xla_ffi_kit

#endif  // XLA_FFI_OPS_SORT_HANDLER_TYPES_H_
