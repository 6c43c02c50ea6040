#include "xla_ffi/testing/call_frame.h"

#include <atomic>
#include <cstdint>
#include <string_view>
#include <vector>

#include "gtest/gtest.h"
#include "xla/ffi/api/ffi.h"

namespace xla_ffi_kit::testing {
namespace {

namespace ffi = ::xla::ffi;

// Uses one of everything that a call frame carries.
ffi::Error Everything(ffi::ThreadPool pool, ffi::BufferR2<ffi::F32> x,
                      ffi::Result<ffi::Buffer<ffi::S32>> y, double d, float f,
                      int64_t i, std::string_view s) {
  if (d != 0.5 || f != 1.5f || i != -7) return ffi::Error::Internal("number");
  if (s != "text") return ffi::Error(ffi::ErrorCode::kNotFound, "string");
  if (x.dimensions()[1] != 3) return ffi::Error::Internal("dimension");
  static std::atomic<int> ran;
  ran = 0;
  for (int task = 0; task < pool.num_threads(); ++task) {
    pool.Schedule([] { ++ran; });
  }
  while (ran < pool.num_threads()) {
  }
  y->typed_data()[0] = static_cast<int32_t>(x.typed_data()[5]);
  return ffi::Error::Success();
}

XLA_FFI_DEFINE_HANDLER(kEverything, Everything,
                       ffi::Ffi::Bind()
                           .Ctx<ffi::ThreadPool>()
                           .Arg<ffi::BufferR2<ffi::F32>>()  // x
                           .Ret<ffi::Buffer<ffi::S32>>()    // y
                           .Attr<double>("z")               // names that are
                           .Attr<float>("a")                // not sorted
                           .Attr<int64_t>("m")
                           .Attr<std::string_view>("b"));

class CallFrameTest : public ::testing::Test {
 protected:
  CallFrame Frame(const char* text) {
    return CallFrame()
        .Arg(x_, {2, 3})
        .Ret(y_, {})
        .Attr("z", 0.5)
        .Attr("a", 1.5f)
        .Attr("m", int64_t{-7})
        .Attr("b", text)
        .Threads(3);
  }

  std::vector<float> x_ = {0, 1, 2, 3, 4, 5};
  std::vector<int32_t> y_ = {0};
};

TEST_F(CallFrameTest, CarriesEverything) {
  const Status status = Frame("text").Run(kEverything);
  EXPECT_TRUE(status.ok()) << status.message;
  EXPECT_EQ(status.message, "");
  EXPECT_EQ(y_[0], 5);
}

TEST_F(CallFrameTest, ReadsCodeAndMessageBack) {
  const Status status = Frame("other").Run(kEverything);
  EXPECT_EQ(status.code, XLA_FFI_Error_Code_NOT_FOUND);
  EXPECT_EQ(status.message, "string");
}

TEST_F(CallFrameTest, ShowsXlasDecodingErrors) {
  EXPECT_EQ(CallFrame().Run(kEverything).message,
            "[execute] Wrong number of arguments: expected 1 but got 0");
  EXPECT_EQ(Frame("text").Attr("z", 0.5f).Run(kEverything).message,
            "[execute] Failed to decode all FFI handler operands (bad operands "
            "at: 3)\nDiagnostics:\nWrong scalar data type: expected F64 but "
            "got F32");
  EXPECT_EQ(
      Frame("text").Run(kEverything, XLA_FFI_ExecutionStage_PREPARE).message,
      "Wrong execution stage: expected `execute` but got `prepare`");
}

TEST_F(CallFrameTest, ReadsMetadata) {
  XLA_FFI_DEFINE_HANDLER(handler, Everything,
                         ffi::Ffi::Bind()
                             .Ctx<ffi::ThreadPool>()
                             .Arg<ffi::BufferR2<ffi::F32>>()
                             .Ret<ffi::Buffer<ffi::S32>>()
                             .Attr<double>("z")
                             .Attr<float>("a")
                             .Attr<int64_t>("m")
                             .Attr<std::string_view>("b"),
                         {ffi::Traits::kCmdBufferCompatible});
  const Metadata metadata = GetMetadata(handler);
  EXPECT_TRUE(metadata.status.ok());
  EXPECT_EQ(metadata.major_version, XLA_FFI_API_MAJOR);
  EXPECT_EQ(metadata.minor_version, XLA_FFI_API_MINOR);
  EXPECT_EQ(metadata.traits, XLA_FFI_HANDLER_TRAITS_COMMAND_BUFFER_COMPATIBLE);
  EXPECT_EQ(metadata.state_type_id, 0);
}

}  // namespace
}  // namespace xla_ffi_kit::testing
