// Scratch memory: device memory for the length of one call.
//
// examples.scratch: () -> s32[], how many of the `count` blocks of `size` bytes
// XLA gave. Only XLA:GPU has a scratch allocator, and a handler that uses one
// cannot be captured in a command buffer; on the CPU the first Allocate()
// fails. A result that nobody reads (tuples.cc) works on both, and may be
// captured.

#include <cstdint>
#include <optional>

#include "xla/ffi/api/ffi.h"

namespace {

namespace ffi = ::xla::ffi;

ffi::Error Allocate(ffi::ScratchAllocator scratch,
                    ffi::ResultBufferR0<ffi::S32> given, int32_t count,
                    int64_t size) {
  *given->typed_data() = 0;
  for (int32_t i = 0; i < count; ++i) {
    const std::optional<void*> block =
        scratch.Allocate(size, /*alignment=*/16);  // XLA takes no more
    if (!block.has_value()) break;
    ++*given->typed_data();
  }
  // The allocator frees what it gave when it goes, after this return.
  return ffi::Error::Success();
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(ExampleScratch, Allocate,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ScratchAllocator>()
                                  .Ret<ffi::BufferR0<ffi::S32>>()  // given
                                  .Attr<int32_t>("count")
                                  .Attr<int64_t>("size"));
