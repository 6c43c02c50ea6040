// The four stages of a handler, all of which XLA:GPU runs: ../stages.cc.

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

#include "cuda_runtime.h"
#include "examples/ffi/cuda/kernels.h"
#include "xla/ffi/api/ffi.h"
#include "xla_ffi/core/cuda/status.h"
#include "xla_ffi/core/define_type.h"

namespace ffi_examples {
namespace {

namespace ffi = ::xla::ffi;
namespace kit = ::xla_ffi_kit;

struct CudaStageCounts {
  static ffi::TypeId id;

  std::atomic<int32_t> instantiate = 1, prepare = 0, initialize = 0,
                       execute = 0;
};

ffi::ErrorOr<std::unique_ptr<CudaStageCounts>> Instantiate() {
  return std::make_unique<CudaStageCounts>();
}

ffi::Error Prepare(CudaStageCounts* counts) {
  ++counts->prepare;
  return ffi::Error::Success();
}

ffi::Error Initialize(CudaStageCounts* counts) {
  ++counts->initialize;
  return ffi::Error::Success();
}

ffi::Error Execute(cudaStream_t stream, CudaStageCounts* counts,
                   ffi::ResultBufferR1<ffi::S32> y) {
  if (y->element_count() != 4) {
    return ffi::Error::InvalidArgument("examples.stages: expected 4 elements");
  }
  ++counts->execute;
  const std::array<int32_t, 4> all = {counts->instantiate, counts->prepare,
                                      counts->initialize, counts->execute};
  return kit::CudaStatus("examples.stages",
                         Store(all, y->typed_data(), stream));
}

}  // namespace

XLA_FFI_KIT_DEFINE_TYPE(ExampleCudaStageCounts, CudaStageCounts);

XLA_FFI_DEFINE_HANDLER_SYMBOL(ExampleStagesInstantiateCuda, Instantiate,
                              ffi::Ffi::BindInstantiate());
XLA_FFI_DEFINE_HANDLER_SYMBOL(
    ExampleStagesPrepareCuda, Prepare,
    ffi::Ffi::BindPrepare().Ctx<ffi::State<CudaStageCounts>>());
XLA_FFI_DEFINE_HANDLER_SYMBOL(
    ExampleStagesInitializeCuda, Initialize,
    ffi::Ffi::BindInitialize().Ctx<ffi::State<CudaStageCounts>>());
XLA_FFI_DEFINE_HANDLER_SYMBOL(ExampleStagesExecuteCuda, Execute,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::PlatformStream<cudaStream_t>>()
                                  .Ctx<ffi::State<CudaStageCounts>>()
                                  .Ret<ffi::BufferR1<ffi::S32>>());  // y

}  // namespace ffi_examples
