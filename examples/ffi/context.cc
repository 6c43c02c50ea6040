// The context: what a call may ask its caller for.

#include <cstdint>
#include <optional>

#include "examples/ffi/user_data.h"
#include "xla/ffi/api/ffi.h"
#include "xla_ffi/core/define_type.h"
#include "xla_ffi/core/parallel_for.h"

namespace ffi_examples {

namespace ffi = ::xla::ffi;

// --- The thread pool: the threads that XLA's own operations run on
// examples.parallel_square: (x f64[n]) -> x * x. ParallelFor lets the calling
// thread work too: a handler that only schedules tasks and waits for them hangs
// as soon as every thread of the pool is such a handler.

namespace {

ffi::Error Square(ffi::ThreadPool pool, ffi::BufferR1<ffi::F64> x,
                  ffi::ResultBufferR1<ffi::F64> y) {
  if (!(x.dimensions() == y->dimensions())) {
    return ffi::Error::InvalidArgument(
        "examples.parallel_square: expected a result as long as operand x");
  }
  const double* in = x.typed_data();
  double* out = y->typed_data();
  xla_ffi_kit::ParallelFor(pool, static_cast<int64_t>(x.element_count()),
                           2 * sizeof(double),
                           [&](int64_t begin, int64_t end) noexcept {
                             for (int64_t i = begin; i < end; ++i) {
                               out[i] = in[i] * in[i];
                             }
                           });
  return ffi::Error::Success();
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(ExampleParallelSquare, Square,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .Arg<ffi::BufferR1<ffi::F64>>()    // x
                                  .Ret<ffi::BufferR1<ffi::F64>>());  // y

// --- Scratch memory: device memory for the length of one call
// examples.scratch: () -> s32[], how many of the `count` blocks of `size` bytes
// XLA gave. Only XLA:GPU has a scratch allocator, and a handler that uses one
// cannot be captured in a command buffer; on the CPU the first Allocate()
// fails. A result that nobody reads, as in examples.tuple_sums, works on
// both, and may be captured.

namespace {

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

// --- Who calls: the number of the run and of the device
// examples.run_id: () -> (run s64[], device s32[]). All devices that take part
// in one execution see one run id: what collectives of one's own meet by. This
// handler takes the whole Context, and asks it for each; binding Ctx<RunId>()
// and Ctx<DeviceOrdinal>() is the shorter way where both are always wanted.

namespace {

ffi::Error Identify(ffi::Context context, ffi::ResultBufferR0<ffi::S64> run,
                    ffi::ResultBufferR0<ffi::S32> device) {
  const ffi::ErrorOr<ffi::RunId> run_id = context.get<ffi::RunId>();
  if (run_id.has_error()) return run_id.error();
  const ffi::ErrorOr<int32_t> ordinal = context.get<ffi::DeviceOrdinal>();
  if (ordinal.has_error()) return ordinal.error();
  *run->typed_data() = run_id->run_id;
  *device->typed_data() = *ordinal;
  return ffi::Error::Success();
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(ExampleRunId, Identify,
                              ffi::Ffi::Bind()
                                  .Ctx()                           // all of it
                                  .Ret<ffi::BufferR0<ffi::S64>>()  // run
                                  .Ret<ffi::BufferR0<ffi::S32>>());  // device

// --- User data: an object that a C++ program passes to one run
// examples.tag: () -> s64[], the tag of the request that is being served. The
// program that runs the executable puts a RequestTag into the run's context
// (xla::ExecuteContext::ffi_context()); JAX has no way to, so there the call is
// an error that says so.

XLA_FFI_KIT_DEFINE_TYPE(ExampleRequestTag, RequestTag);

static ffi::Error Tag(RequestTag* request, ffi::ResultBufferR0<ffi::S64> tag) {
  *tag->typed_data() = request->tag;
  return ffi::Error::Success();
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(ExampleTag, Tag,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::UserData<RequestTag>>()
                                  .Ret<ffi::BufferR0<ffi::S64>>());  // tag

}  // namespace ffi_examples
