// State: a counter that lives as long as one compiled call.
//
// XLA calls the Instantiate stage once for each custom call in an executable,
// keeps the object that it returns, hands it to every Execute, and deletes it
// with the executable. Two executables, or two calls in one of them, count
// apart. One executable may run on several threads at once, so the state has to
// be safe from threads.
//
// In JAX, jax.ffi.ffi_call("examples.counter", jax.ShapeDtypeStruct((), int32),
// has_side_effect=True)(start=np.int32(10)) under jax.jit: 10, 11, 12, ...

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "xla/ffi/api/ffi.h"
#include "xla_ffi/core/define_type.h"

namespace ffi_examples {
namespace {

namespace ffi = ::xla::ffi;

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

}  // namespace ffi_examples
