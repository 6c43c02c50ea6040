// State: what lives as long as one compiled call.

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>  // NOLINT
#include <random>
#include <string>

#include "xla/ffi/api/ffi.h"
#include "xla_ffi/core/define_type.h"

namespace ffi_examples {

namespace ffi = ::xla::ffi;

// --- A counter for each call of an executable
// XLA calls the Instantiate stage once for each custom call in an executable,
// keeps the object that it returns, hands it to every Execute, and deletes it
// with the executable. Two executables, or two calls in one of them, count
// apart. One executable may run on several threads at once, so the state has to
// be safe from threads.
//
// In JAX, jax.ffi.ffi_call("examples.counter", jax.ShapeDtypeStruct((), int32),
// has_side_effect=True)(start=np.int32(10)) under jax.jit: 10, 11, 12, ...

namespace {

std::atomic<int32_t> live_counters = 0;

struct Counter {
  static ffi::TypeId id;

  explicit Counter(int32_t start) : next(start) { ++live_counters; }
  ~Counter() { --live_counters; }

  std::atomic<int32_t> next;
};

// Sees the attributes, but neither buffers nor a stream.
ffi::ErrorOr<std::unique_ptr<Counter>> MakeCounter(int32_t start) {
  if (start < 0) {
    return ffi::Unexpected(ffi::Error::InvalidArgument(
        "examples.counter: attribute start: expected a value >= 0, got " +
        std::to_string(start)));
  }
  return std::make_unique<Counter>(start);
}

ffi::Error Count(Counter* counter, ffi::ResultBufferR0<ffi::S32> count,
                 int32_t /*start*/) {
  *count->typed_data() = counter->next++;
  return ffi::Error::Success();
}

ffi::Error CountLive(ffi::ResultBufferR0<ffi::S32> live) {
  *live->typed_data() = live_counters;
  return ffi::Error::Success();
}

}  // namespace

XLA_FFI_KIT_DEFINE_TYPE(ExampleCounter, Counter);

XLA_FFI_DEFINE_HANDLER_SYMBOL(
    ExampleCounterInstantiate, MakeCounter,
    ffi::Ffi::BindInstantiate().Attr<int32_t>("start"));

XLA_FFI_DEFINE_HANDLER_SYMBOL(ExampleCounterExecute, Count,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::State<Counter>>()
                                  .Ret<ffi::BufferR0<ffi::S32>>()  // count
                                  .Attr<int32_t>("start"));

// For tests: how many counters there are, as examples.live_counters.
XLA_FFI_DEFINE_HANDLER_SYMBOL(ExampleLiveCounters, CountLive,
                              ffi::Ffi::Bind().Ret<ffi::BufferR0<ffi::S32>>());

// --- Random numbers that go on: a seed for each call, not for each run
// examples.random: () -> f32[n], uniform in [0, 1). Each compiled call has a
// generator of its own, which the first one to be instantiated in the process
// seeds with `seed`, the next with `seed` + 1, and so on; each run goes on
// where the last one ended. (JAX's own random numbers are functions of a key,
// and can be repeated, batched and differentiated. These cannot: a caller gives
// that up when it calls a handler with state.)

namespace {

struct Generator {
  static ffi::TypeId id;

  explicit Generator(int64_t seed) : engine(seed) {}

  std::mutex mutex;  // the executable may run on several threads
  std::mt19937_64 engine;
};

ffi::ErrorOr<std::unique_ptr<Generator>> MakeGenerator(int64_t seed) {
  static std::atomic<int64_t> made = 0;
  return std::make_unique<Generator>(seed + made++);
}

ffi::Error Fill(Generator* generator, ffi::ResultBufferR1<ffi::F32> y) {
  std::lock_guard<std::mutex> lock(generator->mutex);
  for (size_t i = 0; i < y->element_count(); ++i) {
    // 24 bits: every one of these numbers is a float.
    y->typed_data()[i] =
        static_cast<float>(generator->engine() >> 40) * 0x1p-24f;
  }
  return ffi::Error::Success();
}

}  // namespace

XLA_FFI_KIT_DEFINE_TYPE(ExampleGenerator, Generator);

XLA_FFI_DEFINE_HANDLER_SYMBOL(
    ExampleRandomInstantiate, MakeGenerator,
    ffi::Ffi::BindInstantiate().Attr<int64_t>("seed"));

XLA_FFI_DEFINE_HANDLER_SYMBOL(ExampleRandomExecute, Fill,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::State<Generator>>()
                                  .Ret<ffi::BufferR1<ffi::F32>>());  // y

// --- The four stages of a handler, two of which XLA:CPU runs
// examples.stages: () -> s32[4], how often each stage of this call has run.
// XLA:GPU calls Instantiate once per executable, Prepare and Initialize before
// each run (to ask for resources, and to load modules on a device), Execute in
// each run. XLA:CPU skips Prepare and Initialize without a word: a handler for
// both must not depend on them.

namespace {

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
