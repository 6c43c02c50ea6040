// The examples of the folder above that say something else on a GPU.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>  // NOLINT
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cuda_runtime.h"
#include "examples/ffi/cuda/kernels.h"
#include "xla/ffi/api/ffi.h"
#include "xla_ffi/core/cuda/status.h"
#include "xla_ffi/core/define_type.h"

namespace ffi_examples {

namespace ffi = ::xla::ffi;
namespace kit = ::xla_ffi_kit;

// --- Input-output aliasing

namespace {

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

// --- Attributes
// A kernel gets attributes as arguments, by value. They are the same in every
// run, so that a graph may capture the launch.

namespace {

ffi::Error Scalars(cudaStream_t stream, ffi::Result<ffi::BufferR1<ffi::F64>> y,
                   bool pred, int8_t s8, int16_t s16, int32_t s32, int64_t s64,
                   uint8_t u8, uint16_t u16, uint32_t u32, uint64_t u64,
                   float f32, double f64, std::string_view text) {
  constexpr char kOp[] = "examples.scalars";
  constexpr int kCount = 12;
  if (y->element_count() != kCount) {
    return ffi::Error::InvalidArgument(
        "expected a result with one element per attribute");
  }
  const std::array<double, kCount> values = {
      double(pred), double(s8),  double(s16), double(s32),
      double(s64),  double(u8),  double(u16), double(u32),
      double(u64),  double(f32), f64,         double(text.size())};
  return kit::CudaStatus(kOp, Store(values, y->typed_data(), stream));
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(ExampleScalarsCuda, Scalars,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::PlatformStream<cudaStream_t>>()
                                  .Ret<ffi::BufferR1<ffi::F64>>()  // y
                                  .Attr<bool>("pred")
                                  .Attr<int8_t>("s8")
                                  .Attr<int16_t>("s16")
                                  .Attr<int32_t>("s32")
                                  .Attr<int64_t>("s64")
                                  .Attr<uint8_t>("u8")
                                  .Attr<uint16_t>("u16")
                                  .Attr<uint32_t>("u32")
                                  .Attr<uint64_t>("u64")
                                  .Attr<float>("f32")
                                  .Attr<double>("f64")
                                  .Attr<std::string_view>("text"),
                              {ffi::Traits::kCmdBufferCompatible});

// --- Scratch memory
// The blocks go back when the handler returns, and the kernels that it has
// launched on its stream still use them safely: whoever gets them next does so
// on the same stream. A graph would use them later; hence no
// kCmdBufferCompatible.

namespace {

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

// --- State on the host, for a handler of the device
// What Execute takes from the state it takes when it is called, not when the
// GPU comes to it. A graph would repeat the number of the call that it
// captured: no kCmdBufferCompatible.

namespace {

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

// --- The four stages of a handler, all of which XLA:GPU runs

namespace {

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

// --- State on the device: a table that is uploaded once
// examples.table: (index s32[n]) -> f64[n], y[i] = table[index[i]], NaN where
// the table has no such element. Instantiate keeps the attribute; Initialize,
// which sees the device before each run and is never captured, allocates and
// copies in the first of them; Execute only launches a kernel with an address
// that stays, so that a graph may capture it.

namespace {

constexpr char kOp[] = "examples.table";

struct CudaTable {
  static ffi::TypeId id;

  ~CudaTable() {
    for (const auto& [device, memory] : on_device) (void)cudaFree(memory);
  }

  std::vector<double> values;
  std::mutex mutex;  // one executable may run on several devices
  std::map<int32_t, double*> on_device;
};

ffi::ErrorOr<std::unique_ptr<CudaTable>> Keep(ffi::Span<const double> values) {
  if (values.size() == 0) {
    return ffi::Unexpected(ffi::Error::InvalidArgument(
        "examples.table: attribute table: expected at least one element"));
  }
  auto table = std::make_unique<CudaTable>();
  table->values.assign(values.begin(), values.end());
  return ffi::ErrorOr<std::unique_ptr<CudaTable>>(std::move(table));
}

ffi::Error Upload(cudaStream_t stream, int32_t device, CudaTable* table) {
  std::lock_guard<std::mutex> lock(table->mutex);
  if (table->on_device.count(device) != 0) return ffi::Error::Success();
  const size_t bytes = table->values.size() * sizeof(double);
  double* memory = nullptr;
  cudaError_t status = cudaMalloc(&memory, bytes);
  if (status == cudaSuccess) {
    // The values live as long as the table, and so longer than the copy.
    table->on_device[device] = memory;
    status = cudaMemcpyAsync(memory, table->values.data(), bytes,
                             cudaMemcpyHostToDevice, stream);
  }
  if (status != cudaSuccess) (void)cudaGetLastError();
  return kit::CudaStatus(kOp, status);
}

ffi::Error LookUpInTable(cudaStream_t stream, int32_t device, CudaTable* table,
                         ffi::BufferR1<ffi::S32> index,
                         ffi::ResultBufferR1<ffi::F64> y) {
  if (index.element_count() != y->element_count()) {
    return ffi::Error::InvalidArgument(
        "examples.table: result y: expected as many elements as operand index");
  }
  double* memory = nullptr;
  {
    std::lock_guard<std::mutex> lock(table->mutex);
    const auto found = table->on_device.find(device);
    if (found != table->on_device.end()) memory = found->second;
  }
  if (memory == nullptr) {
    return {ffi::ErrorCode::kFailedPrecondition,
            "examples.table: stage Initialize: expected it to have run on "
            "device " +
                std::to_string(device)};
  }
  return kit::CudaStatus(
      kOp,
      LookUp(memory, static_cast<int64_t>(table->values.size()),
             index.typed_data(), static_cast<int64_t>(index.element_count()),
             y->typed_data(), stream));
}

}  // namespace

XLA_FFI_KIT_DEFINE_TYPE(ExampleCudaTable, CudaTable);

XLA_FFI_DEFINE_HANDLER_SYMBOL(
    ExampleTableInstantiateCuda, Keep,
    ffi::Ffi::BindInstantiate().Attr<ffi::Span<const double>>("table"));
XLA_FFI_DEFINE_HANDLER_SYMBOL(ExampleTableInitializeCuda, Upload,
                              ffi::Ffi::BindInitialize()
                                  .Ctx<ffi::PlatformStream<cudaStream_t>>()
                                  .Ctx<ffi::DeviceOrdinal>()
                                  .Ctx<ffi::State<CudaTable>>());
XLA_FFI_DEFINE_HANDLER_SYMBOL(ExampleTableExecuteCuda, LookUpInTable,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::PlatformStream<cudaStream_t>>()
                                  .Ctx<ffi::DeviceOrdinal>()
                                  .Ctx<ffi::State<CudaTable>>()
                                  .Arg<ffi::BufferR1<ffi::S32>>()   // index
                                  .Ret<ffi::BufferR1<ffi::F64>>(),  // y
                              {ffi::Traits::kCmdBufferCompatible});

}  // namespace ffi_examples
