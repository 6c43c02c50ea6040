// Two handlers, for BUILD files that get them wrong.

#include "xla/ffi/api/ffi.h"

namespace ffi = ::xla::ffi;

static ffi::Error Nothing() { return ffi::Error::Success(); }

XLA_FFI_DEFINE_HANDLER_SYMBOL(MistakesOne, Nothing, ffi::Ffi::Bind());
XLA_FFI_DEFINE_HANDLER_SYMBOL(MistakesTwo, Nothing, ffi::Ffi::Bind());
