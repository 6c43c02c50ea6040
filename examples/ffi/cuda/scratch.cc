// Scratch memory on the device: ../scratch.cc.
//
// The blocks go back when the handler returns, and the kernels that it has
// launched on its stream still use them safely: whoever gets them next does so
// on the same stream. A graph would use them later; hence no
// kCmdBufferCompatible.

#include <cstddef>
#include <cstdint>
#include <optional>

#include "cuda_runtime.h"
#include "examples/ffi/cuda/kernels.h"
#include "xla/ffi/api/ffi.h"
#include "xla_ffi/core/cuda/status.h"

namespace ffi_examples {
namespace {

namespace ffi = ::xla::ffi;
namespace kit = ::xla_ffi_kit;

// XLA refuses a larger one; what it gives begins at a multiple of 256 anyway.
constexpr size_t kAlignment = 16;

ffi::Error Allocate(cudaStream_t stream, ffi::ScratchAllocator scratch,
                    ffi::ResultBufferR0<ffi::S32> given, int32_t count,
                    int64_t size) {
  int32_t blocks = 0;
  cudaError_t status = cudaSuccess;
  for (; blocks < count && status == cudaSuccess; ++blocks) {
    const std::optional<void*> block = scratch.Allocate(size, kAlignment);
    if (!block.has_value()) break;
    status = cudaMemsetAsync(*block, 0, size, stream);
    // Not for whoever asks for the last error next.
    if (status != cudaSuccess) (void)cudaGetLastError();
  }
  if (status == cudaSuccess) {
    status = Store(blocks, given->typed_data(), stream);
  }
  return kit::CudaStatus("examples.scratch", status);
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(ExampleScratchCuda, Allocate,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::PlatformStream<cudaStream_t>>()
                                  .Ctx<ffi::ScratchAllocator>()
                                  .Ret<ffi::BufferR0<ffi::S32>>()  // given
                                  .Attr<int32_t>("count")
                                  .Attr<int64_t>("size"));

}  // namespace ffi_examples
