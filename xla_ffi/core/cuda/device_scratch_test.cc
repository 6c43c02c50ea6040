#include "xla_ffi/core/cuda/device_scratch.h"

#include <cstdint>
#include <cstring>
#include <vector>

#include "gtest/gtest.h"
#include "xla/ffi/api/ffi.h"
#include "xla_ffi/testing/call_frame.h"

namespace xla_ffi_kit {
namespace {

namespace ffi = ::xla::ffi;
using testing::CallFrame;
using testing::Status;

ffi::Error Use(ffi::ScratchAllocator scratch,
               ffi::ResultBufferR0<ffi::S32> got_memory, int64_t bytes) {
  const ffi::ErrorOr<void*> memory = GetScratch("test.use", scratch, bytes);
  if (memory.has_error()) return memory.error();
  *got_memory->typed_data() = *memory != nullptr;
  if (*memory != nullptr) std::memset(*memory, 1, bytes);
  return {};
}
XLA_FFI_DEFINE_HANDLER(kUse, Use,
                       ffi::Ffi::Bind()
                           .Ctx<ffi::ScratchAllocator>()
                           .Ret<ffi::BufferR0<ffi::S32>>()
                           .Attr<int64_t>("bytes"));

TEST(DeviceScratchTest, GivesMemoryOrNamesTheOperation) {
  std::vector<int32_t> got_memory = {-1};
  const auto run = [&](int64_t bytes) {
    return CallFrame()
        .Ret(got_memory, {})
        .Attr("bytes", bytes)
        .Scratch(1000)
        .Run(kUse);
  };
  EXPECT_EQ(run(1000).message, "");
  EXPECT_EQ(got_memory[0], 1);
  EXPECT_EQ(run(0).message, "");
  EXPECT_EQ(got_memory[0], 0);

  const Status status = run(1001);
  EXPECT_EQ(status.code, XLA_FFI_Error_Code_RESOURCE_EXHAUSTED);
  EXPECT_EQ(status.message,
            "test.use: scratch memory: expected 1001 bytes on the device, got "
            "none");
}

}  // namespace
}  // namespace xla_ffi_kit
