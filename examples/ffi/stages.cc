// The four stages of a handler. XLA:CPU runs two of them.
//
// examples.stages: () -> s32[4], how often each stage of this call has run.
// XLA:GPU calls Instantiate once per executable, Prepare and Initialize before
// each run (to ask for resources, and to load modules on a device), Execute in
// each run. XLA:CPU skips Prepare and Initialize without a word: a handler for
// both must not depend on them.

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>

#include "xla/ffi/api/ffi.h"
#include "xla_ffi/core/define_type.h"

namespace ffi_examples {
namespace {

namespace ffi = ::xla::ffi;

struct StageCounts {
  static ffi::TypeId id;

  std::atomic<int32_t> instantiate = 1, prepare = 0, initialize = 0,
                       execute = 0;
};

ffi::ErrorOr<std::unique_ptr<StageCounts>> Instantiate() {
  return std::make_unique<StageCounts>();
}

ffi::Error Prepare(StageCounts* counts) {
  ++counts->prepare;
  return ffi::Error::Success();
}

ffi::Error Initialize(StageCounts* counts) {
  ++counts->initialize;
  return ffi::Error::Success();
}

ffi::Error Execute(StageCounts* counts, ffi::ResultBufferR1<ffi::S32> y) {
  if (y->element_count() != 4) {
    return ffi::Error::InvalidArgument("examples.stages: expected 4 elements");
  }
  ++counts->execute;
  const int32_t all[] = {counts->instantiate, counts->prepare,
                         counts->initialize, counts->execute};
  std::copy(all, all + 4, y->typed_data());
  return ffi::Error::Success();
}

}  // namespace

XLA_FFI_KIT_DEFINE_TYPE(ExampleStageCounts, StageCounts);

XLA_FFI_DEFINE_HANDLER_SYMBOL(ExampleStagesInstantiate, Instantiate,
                              ffi::Ffi::BindInstantiate());
XLA_FFI_DEFINE_HANDLER_SYMBOL(
    ExampleStagesPrepare, Prepare,
    ffi::Ffi::BindPrepare().Ctx<ffi::State<StageCounts>>());
XLA_FFI_DEFINE_HANDLER_SYMBOL(
    ExampleStagesInitialize, Initialize,
    ffi::Ffi::BindInitialize().Ctx<ffi::State<StageCounts>>());
XLA_FFI_DEFINE_HANDLER_SYMBOL(ExampleStagesExecute, Execute,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::State<StageCounts>>()
                                  .Ret<ffi::BufferR1<ffi::S32>>());

}  // namespace ffi_examples
