// Declares what CUDA in a string may use, as xla_ffi/strings/kit.h does for
// CPUs. NVRTC compiles it without any other headers; the emulator of
// //xla_ffi/testing/cuda compiles it with those of the host.

#ifndef XLA_FFI_STRINGS_CUDA_KIT_H_
#define XLA_FFI_STRINGS_CUDA_KIT_H_

// Bytes of the longest attribute that is a sequence.
#ifndef KIT_ARRAY_BYTES
#define KIT_ARRAY_BYTES 8
#endif

#include "xla_ffi/strings/cuda/array.h"
#include "xla_ffi/strings/cuda/block.h"
#include "xla_ffi/strings/cuda/elements.h"
#include "xla_ffi/strings/cuda/rows.h"
#include "xla_ffi/strings/cuda/standard.h"
#include "xla_ffi/strings/cuda/tiles.h"
#include "xla_ffi/strings/scan.h"
#include "xla_ffi/strings/value.h"

#endif  // XLA_FFI_STRINGS_CUDA_KIT_H_
