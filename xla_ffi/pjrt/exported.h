// Reads what jax.export's Exported.serialize() wrote.

#ifndef XLA_FFI_PJRT_EXPORTED_H_
#define XLA_FFI_PJRT_EXPORTED_H_

#include <cstdint>
#include <string>
#include <vector>

#include "xla_ffi/pjrt/array.h"

namespace xla_ffi_kit::pjrt {

struct Exported {
  std::string name;           // of the function
  std::string mlir;           // StableHLO as bytecode
  std::vector<Shape> inputs;  // jax.tree.leaves((args, kw))
  // Of `inputs`, those that the program reads: jit drops what is not used.
  std::vector<uint16_t> kept;
};

// Throws Error for what is no such file, is cut off, or
// cannot be served: a program of several devices or platforms, of symbolic
// shapes, with ordered effects, or of dtypes that Array has not.
Exported ParseExported(const std::string& file);

}  // namespace xla_ffi_kit::pjrt

#endif  // XLA_FFI_PJRT_EXPORTED_H_
