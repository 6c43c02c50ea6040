// Reads what jax.export's Exported.serialize() wrote.

#ifndef EXAMPLES_PJRT_SERVER_PJRT_EXPORTED_H_
#define EXAMPLES_PJRT_SERVER_PJRT_EXPORTED_H_

#include <cstdint>
#include <string>
#include <vector>

#include "examples/pjrt_server/pjrt/array.h"

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

#endif  // EXAMPLES_PJRT_SERVER_PJRT_EXPORTED_H_
