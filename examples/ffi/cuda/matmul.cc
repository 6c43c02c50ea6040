// A handler that calls a library of the platform: cuBLAS.
//
// examples.matmul: (a f32[m, k], b f32[k, n]) -> f32[m, n]; attribute library,
// the file of cuBLAS. Instantiate opens it, because a process with JAX has
// loaded its own: linking to another would bring a second one. Each device has
// a cuBLAS handle of its own, which may be on one stream at a time.

#include <dlfcn.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>  // NOLINT
#include <string>
#include <string_view>
#include <utility>

#include "cuda_runtime.h"
#include "xla/ffi/api/ffi.h"
#include "xla_ffi/core/define_type.h"

namespace ffi_examples {
namespace {

namespace ffi = ::xla::ffi;

// What cublas_v2.h declares, in a wheel of hundreds of megabytes: the handle is
// opaque, the status an enum whose 0 is success, and no transposition is 0.
using CublasHandle = struct cublasContext*;
using CublasStatus = int;
constexpr int kNotTransposed = 0;

struct CublasFunctions {
  CublasStatus (*create)(CublasHandle*);
  CublasStatus (*destroy)(CublasHandle);
  CublasStatus (*set_stream)(CublasHandle, cudaStream_t);
  CublasStatus (*sgemm)(CublasHandle, int a_op, int b_op, int m, int n, int k,
                        const float* alpha, const float* a, int a_stride,
                        const float* b, int b_stride, const float* beta,
                        float* c, int c_stride);
  const char* (*status_string)(CublasStatus);
};

struct Cublas {
  static ffi::TypeId id;

  ~Cublas() {
    for (const auto& [device, handle] : of_device) (void)call.destroy(handle);
  }

  CublasFunctions call = {};
  std::mutex mutex;  // one executable may run on several devices
  std::map<int32_t, CublasHandle> of_device;
};

template <typename Function>
bool Find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

ffi::ErrorOr<std::unique_ptr<Cublas>> Open(std::string_view path) {
  // Never closed: cuBLAS keeps threads of its own.
  void* const library = dlopen(std::string(path).c_str(), RTLD_NOW);
  auto cublas = std::make_unique<Cublas>();
  CublasFunctions& call = cublas->call;
  if (library == nullptr || !Find(library, "cublasCreate_v2", call.create) ||
      !Find(library, "cublasDestroy_v2", call.destroy) ||
      !Find(library, "cublasSetStream_v2", call.set_stream) ||
      !Find(library, "cublasSgemm_v2", call.sgemm) ||
      !Find(library, "cublasGetStatusString", call.status_string)) {
    return ffi::Unexpected(ffi::Error::InvalidArgument(
        "examples.matmul: attribute library: expected the file of cuBLAS, such "
        "as libcublas.so.13, got \"" +
        std::string(path) + "\": " + dlerror()));
  }
  return ffi::ErrorOr<std::unique_ptr<Cublas>>(std::move(cublas));
}

ffi::Error ToError(const Cublas& cublas, CublasStatus status) {
  if (status == 0) return ffi::Error::Success();
  return ffi::Error::Internal(std::string("examples.matmul: cuBLAS: ") +
                              cublas.call.status_string(status));
}

ffi::Error Multiply(cudaStream_t stream, int32_t device, Cublas* cublas,
                    ffi::BufferR2<ffi::F32> a, ffi::BufferR2<ffi::F32> b,
                    ffi::ResultBufferR2<ffi::F32> y) {
  const int64_t m = a.dimensions()[0], k = a.dimensions()[1];
  const int64_t n = b.dimensions()[1];
  if (b.dimensions()[0] != k || y->dimensions()[0] != m ||
      y->dimensions()[1] != n) {
    return ffi::Error::InvalidArgument(
        "examples.matmul: shapes: expected [m, k], [k, n] and [m, n]");
  }
  if (m > INT32_MAX || n > INT32_MAX || k > INT32_MAX) {
    return ffi::Error::InvalidArgument(
        "examples.matmul: dimensions: expected them below 2^31, as cuBLAS "
        "takes them");
  }
  if (m == 0 || n == 0) return ffi::Error::Success();

  std::lock_guard<std::mutex> lock(cublas->mutex);
  const auto [found, is_new] = cublas->of_device.try_emplace(device, nullptr);
  CublasHandle& handle = found->second;
  CublasStatus status = is_new ? cublas->call.create(&handle) : 0;
  if (status != 0) {
    cublas->of_device.erase(found);
    return ToError(*cublas, status);
  }
  status = cublas->call.set_stream(handle, stream);
  if (status != 0) return ToError(*cublas, status);
  // cuBLAS counts by columns: y' = b' a', and a row-major matrix is its own
  // transpose there.
  const float one = 1, zero = 0;
  const int columns = static_cast<int>(n), inner = static_cast<int>(k);
  status = cublas->call.sgemm(handle, kNotTransposed, kNotTransposed, columns,
                              static_cast<int>(m), inner, &one, b.typed_data(),
                              columns, a.typed_data(), inner == 0 ? 1 : inner,
                              &zero, y->typed_data(), columns);
  return ToError(*cublas, status);
}

}  // namespace

XLA_FFI_KIT_DEFINE_TYPE(ExampleCublas, Cublas);

XLA_FFI_DEFINE_HANDLER_SYMBOL(
    ExampleMatmulInstantiateCuda, Open,
    ffi::Ffi::BindInstantiate().Attr<std::string_view>("library"));
XLA_FFI_DEFINE_HANDLER_SYMBOL(ExampleMatmulExecuteCuda, Multiply,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::PlatformStream<cudaStream_t>>()
                                  .Ctx<ffi::DeviceOrdinal>()
                                  .Ctx<ffi::State<Cublas>>()
                                  .Arg<ffi::BufferR2<ffi::F32>>()    // a
                                  .Arg<ffi::BufferR2<ffi::F32>>()    // b
                                  .Ret<ffi::BufferR2<ffi::F32>>());  // y

}  // namespace ffi_examples
