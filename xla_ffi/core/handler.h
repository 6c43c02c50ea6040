// The header that every handler includes: the FFI, errors that name the
// argument, dtypes, memory and the parallel loop.

#ifndef XLA_FFI_CORE_HANDLER_H_
#define XLA_FFI_CORE_HANDLER_H_

#include "xla/ffi/api/ffi.h"            // IWYU pragma: export
#include "xla_ffi/core/batch_shape.h"   // IWYU pragma: export
#include "xla_ffi/core/checks.h"        // IWYU pragma: export
#include "xla_ffi/core/dtypes.h"        // IWYU pragma: export
#include "xla_ffi/core/executor.h"      // IWYU pragma: export
#include "xla_ffi/core/half.h"          // IWYU pragma: export
#include "xla_ffi/core/host_scratch.h"  // IWYU pragma: export
#include "xla_ffi/core/output_pages.h"  // IWYU pragma: export
#include "xla_ffi/core/parallel_for.h"  // IWYU pragma: export

#endif  // XLA_FFI_CORE_HANDLER_H_
