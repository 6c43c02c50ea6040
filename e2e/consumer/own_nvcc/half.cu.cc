#ifndef OWN_NVCC
#error "compiled by another nvcc than //own_nvcc"
#endif

#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

ffi::Error Half() { return ffi::Error::Success(); }

XLA_FFI_DEFINE_HANDLER_SYMBOL(ConsumerHalf, Half, ffi::Ffi::Bind());
