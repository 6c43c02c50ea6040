// State on the device: a table that is uploaded once.
//
// examples.table: (index s32[n]) -> f64[n], y[i] = table[index[i]], NaN where
// the table has no such element. Instantiate keeps the attribute; Initialize,
// which sees the device before each run and is never captured, allocates and
// copies in the first of them; Execute only launches a kernel with an address
// that stays, so that a graph may capture it.

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>  // NOLINT
#include <string>
#include <utility>
#include <vector>

#include "cuda_runtime.h"
#include "examples/ffi/cuda/kernels.h"
#include "xla/ffi/api/ffi.h"
#include "xla_ffi/core/cuda/status.h"
#include "xla_ffi/core/define_type.h"

namespace ffi_examples {
namespace {

namespace ffi = ::xla::ffi;
namespace kit = ::xla_ffi_kit;

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

ffi::Error Execute(cudaStream_t stream, int32_t device, CudaTable* table,
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
XLA_FFI_DEFINE_HANDLER_SYMBOL(ExampleTableExecuteCuda, Execute,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::PlatformStream<cudaStream_t>>()
                                  .Ctx<ffi::DeviceOrdinal>()
                                  .Ctx<ffi::State<CudaTable>>()
                                  .Arg<ffi::BufferR1<ffi::S32>>()   // index
                                  .Ret<ffi::BufferR1<ffi::F64>>(),  // y
                              {ffi::Traits::kCmdBufferCompatible});

}  // namespace ffi_examples
