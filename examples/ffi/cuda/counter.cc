// State on the host, for a handler of the device: ../counter.cc.
//
// What Execute takes from the state it takes when it is called, not when the
// GPU comes to it. A graph would repeat the number of the call that it
// captured: no kCmdBufferCompatible.

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "cuda_runtime.h"
#include "examples/ffi/cuda/kernels.h"
#include "xla/ffi/api/ffi.h"
#include "xla_ffi/core/cuda/status.h"
#include "xla_ffi/core/define_type.h"

namespace ffi_examples {
namespace {

namespace ffi = ::xla::ffi;
namespace kit = ::xla_ffi_kit;

struct CudaCounter {
  static ffi::TypeId id;

  explicit CudaCounter(int32_t start) : next(start) {}

  std::atomic<int32_t> next;
};

ffi::ErrorOr<std::unique_ptr<CudaCounter>> MakeCounter(int32_t start) {
  if (start < 0) {
    return ffi::Unexpected(ffi::Error::InvalidArgument(
        "examples.counter: attribute start: expected a value >= 0, got " +
        std::to_string(start)));
  }
  return std::make_unique<CudaCounter>(start);
}

ffi::Error Count(cudaStream_t stream, CudaCounter* counter,
                 ffi::ResultBufferR0<ffi::S32> count, int32_t /*start*/) {
  return kit::CudaStatus("examples.counter",
                         Store(counter->next++, count->typed_data(), stream));
}

}  // namespace

XLA_FFI_KIT_DEFINE_TYPE(ExampleCudaCounter, CudaCounter);

XLA_FFI_DEFINE_HANDLER_SYMBOL(
    ExampleCounterInstantiateCuda, MakeCounter,
    ffi::Ffi::BindInstantiate().Attr<int32_t>("start"));

XLA_FFI_DEFINE_HANDLER_SYMBOL(ExampleCounterExecuteCuda, Count,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::PlatformStream<cudaStream_t>>()
                                  .Ctx<ffi::State<CudaCounter>>()
                                  .Ret<ffi::BufferR0<ffi::S32>>()  // count
                                  .Attr<int32_t>("start"));

}  // namespace ffi_examples
