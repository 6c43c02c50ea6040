// The machine code of a kernel for several GPUs, as a program carries it.

#ifndef XLA_FFI_RUNTIME_IMAGES_H_
#define XLA_FFI_RUNTIME_IMAGES_H_

#include <string>
#include <string_view>

#include "xla/ffi/api/ffi.h"

namespace xla_ffi_kit::launch {

// The image for a GPU of compute capability `major`.`minor`, decoded.
//
// `code` is a line for each image: its architecture and its bytes in base64,
// "sm_90 f0VMR..." for machine code, "compute_90 Ly8K..." for PTX. Machine code
// runs on GPUs of the same major number and the same minor one or a newer; PTX
// on all that are not older, compiled by the driver. The closest machine code
// wins, else the newest PTX.
xla::ffi::ErrorOr<std::string> ImageFor(std::string_view code, int major,
                                        int minor);

}  // namespace xla_ffi_kit::launch

#endif  // XLA_FFI_RUNTIME_IMAGES_H_
