#include "rocm/kernel.h"
#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

ffi::Error Run() {
  if (MistakesArchitectures() > 0) return ffi::Error::Success();
  return ffi::Error::Internal("no architectures");
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(MistakesRocm, Run, ffi::Ffi::Bind());
