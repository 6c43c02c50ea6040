// Input-output aliasing on the device: ../alias.cc.

#include <cstdint>

#include "cuda_runtime.h"
#include "examples/ffi/cuda/kernels.h"
#include "xla/ffi/api/ffi.h"
#include "xla_ffi/core/cuda/status.h"

namespace ffi_examples {
namespace {

namespace ffi = ::xla::ffi;
namespace kit = ::xla_ffi_kit;

ffi::Error Run(cudaStream_t stream, ffi::Buffer<ffi::S32> x,
               ffi::ResultBuffer<ffi::S32> y,
               ffi::ResultBufferR0<ffi::PRED> in_place) {
  constexpr char kOp[] = "examples.add_one";
  if (!(x.dimensions() == y->dimensions())) {
    return ffi::Error::InvalidArgument(
        "examples.add_one: result y: expected x's shape");
  }
  cudaError_t status =
      AddOne(x.typed_data(), static_cast<int64_t>(x.element_count()),
             y->typed_data(), stream);
  if (status == cudaSuccess) {
    // Where the buffers are is known on the host; a graph that is replayed
    // with other buffers must not repeat the answer.
    const bool is_in_place = x.untyped_data() == y->untyped_data();
    status = Store(is_in_place, in_place->typed_data(), stream);
  }
  return kit::CudaStatus(kOp, status);
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(
    ExampleAddOneCuda, Run,
    ffi::Ffi::Bind()
        .Ctx<ffi::PlatformStream<cudaStream_t>>()
        .Arg<ffi::Buffer<ffi::S32>>()       // x
        .Ret<ffi::Buffer<ffi::S32>>()       // y
        .Ret<ffi::BufferR0<ffi::PRED>>());  // in_place

}  // namespace ffi_examples
