// Attributes on the device: ../attributes.cc.
//
// A kernel gets attributes as arguments, by value. They are the same in every
// run, so that a graph may capture the launch.

#include <array>
#include <cstdint>
#include <string_view>

#include "cuda_runtime.h"
#include "examples/ffi/cuda/kernels.h"
#include "xla/ffi/api/ffi.h"
#include "xla_ffi/core/cuda/status.h"

namespace ffi_examples {
namespace {

namespace ffi = ::xla::ffi;
namespace kit = ::xla_ffi_kit;

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

}  // namespace ffi_examples
