// State that spares the caller a seed: random numbers that go on.
//
// examples.random: () -> f32[n], uniform in [0, 1). Each compiled call has a
// generator of its own, which the first one to be instantiated in the process
// seeds with `seed`, the next with `seed` + 1, and so on; each run goes on
// where the last one ended. (JAX's own random numbers are functions of a key,
// and can be repeated, batched and differentiated. These cannot: a caller gives
// that up when it calls a handler with state.)

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>  // NOLINT
#include <random>

#include "xla/ffi/api/ffi.h"
#include "xla_ffi/core/define_type.h"

namespace ffi_examples {
namespace {

namespace ffi = ::xla::ffi;

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

}  // namespace ffi_examples
