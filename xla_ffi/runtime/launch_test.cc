#include "xla_ffi/runtime/launch.h"

#include <dlfcn.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "xla/ffi/api/ffi.h"
#include "xla_ffi/testing/call_frame.h"
#include "xla_ffi/testing/cuda/driver/fake_driver.h"

XLA_FFI_DECLARE_HANDLER_SYMBOL(XlaFfiKitLaunch);
XLA_FFI_DECLARE_HANDLER_SYMBOL(XlaFfiKitLaunchInitialize);

namespace xla_ffi_kit::launch {
namespace {

using testing::CallFrame;
using testing::FakeDriver;
using ::testing::Test;

constexpr auto kInitialize = XLA_FFI_ExecutionStage_INITIALIZE;
using Numbers = std::vector<int64_t>;

std::string Base64(const std::string& bytes) {
  static constexpr char kDigits[] =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t bits = 0;
    for (size_t j = 0; j < 3; ++j) {
      const char c = i + j < bytes.size() ? bytes[i + j] : '\0';
      bits = bits << 8 | static_cast<unsigned char>(c);
    }
    for (int shift = 18; shift >= 0; shift -= 6) {
      text += kDigits[bits >> shift & 63];
    }
  }
  return text;
}

class LaunchTest : public Test {
 protected:
  LaunchTest() {
    static void* library = dlopen("xla_ffi/testing/cuda/driver/fake_driver.so",
                                  RTLD_NOW | RTLD_GLOBAL);
    EXPECT_NE(library, nullptr) << dlerror();
    driver_ = reinterpret_cast<testing::GetFakeDriver*>(
        dlsym(library, "XlaFfiKitFakeDriver"))();
    *driver_ = FakeDriver();
    driver_->current = &driver_->major;
    static int tests = 0;
    digest_ = "digest of test " + std::to_string(++tests);
  }

  // y = 3 x, of 5 rows of 4.
  CallFrame Call() {
    Numbers constants = {0, 0};
    const float factor = 3;
    std::memcpy(reinterpret_cast<char*>(constants.data()) + 8, &factor, 4);
    std::string path = "xla_ffi/runtime/launch_test_kernel.so";
    path.push_back('\0');
    return CallFrame()
        .Arg(x_, {5, 4})
        .Ret(y_, {5, 4})
        .Ret(said_, {11})
        .Attr("name", std::string("my.scale"))
        .Attr("symbol", std::string("Scale"))
        .Attr("digest", digest_)
        .Attr("code", "sm_90 " + Base64(path))
        .Attr("grid", Numbers{7, 1, 1})
        .Attr("block", Numbers{1, 1, 1})
        .Attr("shared", int64_t{0})
        .Attr("items", Numbers{0, 1, 2})
        .Attr("parameters", Numbers{0, -10, 1, 2, -1})
        .Attr("constants", constants);
  }

  std::string Run(CallFrame call) { return call.Run(XlaFfiKitLaunch).message; }

  int64_t Calls(const std::string& begin) const {
    int64_t count = 0;
    for (const std::string& call : driver_->calls) {
      count += call.substr(0, begin.size()) == begin;
    }
    return count;
  }

  FakeDriver* driver_;
  std::string digest_;
  std::vector<float> x_ = std::vector<float>(20, 2);
  std::vector<float> y_ = std::vector<float>(20);
  Numbers said_ = Numbers(11);
};

TEST_F(LaunchTest, PassesWhatTheKernelTakes) {
  EXPECT_EQ(Run(Call()), "");
  EXPECT_EQ(y_, std::vector<float>(20, 6));
  EXPECT_EQ(said_, (Numbers{5, 4, 2, 5, 4, 1, 1, 1, 1, 1, 1}));
  EXPECT_EQ(driver_->calls.back(), "cuLaunchKernel 3 1 1 1 1 1 0");
}

TEST_F(LaunchTest, PassesGeometry) {
  EXPECT_EQ(Run(Call()
                    .Attr("items", Numbers{})
                    .Attr("grid", Numbers{2, 3, 4})
                    .Attr("block", Numbers{5, 6, 7})
                    .Attr("shared", int64_t{100000})),
            "");
  EXPECT_EQ(Calls("cuFuncSetAttribute 100000"), 1);
  EXPECT_EQ(driver_->calls.back(), "cuLaunchKernel 2 3 4 5 6 7 100000");
}

TEST_F(LaunchTest, MergesTheFirstOfManyAxes) {
  CallFrame call = Call();
  call.args()[0].dims = {2, 1, 1, 5, 1, 1, 1, 1, 1, 2};
  EXPECT_EQ(Run(call), "");
  EXPECT_EQ(said_, (Numbers{10, 2, 8, 2, 5, 1, 1, 1, 1, 1, 2}));
}

TEST_F(LaunchTest, LaunchesNothingForNothing) {
  CallFrame call = Call();
  call.args()[0].dims = {0, 4};
  EXPECT_EQ(Run(call), "");
  EXPECT_EQ(Run(Call().Attr("items", Numbers{}).Attr("grid", Numbers{3, 0, 1})),
            "");
  // Products that 64 bits do not hold: of the items' axes, of merged ones.
  constexpr int64_t kHuge = int64_t{1} << 40;
  call.args()[0].dims = {kHuge, kHuge, 0};
  EXPECT_EQ(Run(call), "");
  call.args()[0].dims = {kHuge, kHuge, 1, 1, 1, 1, 1, 1, 1, 0};
  EXPECT_EQ(Run(call), "");
  EXPECT_EQ(Calls("cuLaunchKernel"), 0);
}

TEST_F(LaunchTest, LoadsOnceForEachContext) {
  EXPECT_EQ(Call().Run(XlaFfiKitLaunchInitialize, kInitialize).message, "");
  EXPECT_EQ(Calls("cuLaunchKernel"), 0);
  EXPECT_EQ(Calls("cuModuleLoadData"), 1);
  EXPECT_EQ(Run(Call()) + Run(Call()), "");
  EXPECT_EQ(Calls("cuModuleLoadData"), 1);
  int other = 0, stream = 0;
  driver_->of_streams = &other;
  EXPECT_EQ(Run(Call().Stream(&stream)) + Run(Call().Stream(&stream)), "");
  EXPECT_EQ(Calls("cuModuleLoadData"), 2);
  EXPECT_EQ(Calls("cuCtxPushCurrent"), 2);
  EXPECT_EQ(Calls("cuCtxPopCurrent"), 2);
}

TEST_F(LaunchTest, LoadsAgainForAContextAtTheAddressOfAnother) {
  driver_->numbers[driver_->current] = 1;
  EXPECT_EQ(Run(Call()), "");
  driver_->numbers[driver_->current] = 2;  // destroyed, and made anew
  EXPECT_EQ(Run(Call()) + Run(Call()), "");
  EXPECT_EQ(Calls("cuModuleLoadData"), 2);
  EXPECT_EQ(Calls("cuModuleGetFunction"), 2);
}

// A driver older than CUDA 12 has no such function; here it fails.
TEST_F(LaunchTest, WithoutNumbersContextsAreTheirAddresses) {
  driver_->failures = {{"cuCtxGetId", 1}};
  EXPECT_EQ(Run(Call()) + Run(Call()), "");
  EXPECT_EQ(Calls("cuModuleLoadData"), 1);
}

TEST_F(LaunchTest, LoadsEvenWhileAGraphIsCaptured) {
  driver_->is_capturing = true;
  EXPECT_EQ(Run(Call()), "");
  EXPECT_EQ(driver_->capture_mode, 0);
}

TEST_F(LaunchTest, TheDriversErrorsNameTheOperation) {
  driver_->failures = {{"cuLaunchKernel", 1}};
  EXPECT_EQ(Run(Call()),
            "my.scale: launching grid (3, 1, 1) of blocks (1, 1, 1) with 0 "
            "bytes of shared memory: invalid argument "
            "(CUDA_ERROR_INVALID_VALUE)");
  digest_ += " again";
  driver_->failures = {{"cuModuleLoadData", 200}};
  EXPECT_EQ(Run(Call()),
            "my.scale: loading its code: an error of the test "
            "(CUDA_ERROR_OF_THE_TEST)");
  driver_->failures = {};
  EXPECT_EQ(Run(Call().Attr("symbol", std::string("Scales"))),
            "my.scale: finding kernel Scales: an error of the test "
            "(CUDA_ERROR_OF_THE_TEST)");
  EXPECT_EQ(Calls("cuModuleUnload"), 1);
  int stream = 0;
  driver_->failures = {{"cuStreamGetCtx", 1}};
  EXPECT_EQ(Run(Call().Stream(&stream)),
            "my.scale: asking for the stream's context: invalid argument "
            "(CUDA_ERROR_INVALID_VALUE)");
}

TEST_F(LaunchTest, AnErrorOfInitializeIsNoEnd) {
  driver_->failures = {{"cuModuleLoadData", 200}};
  EXPECT_NE(Call().Run(XlaFfiKitLaunchInitialize, kInitialize).message, "");
  driver_->failures = {};
  EXPECT_EQ(Run(Call()), "");
}

TEST_F(LaunchTest, IsNotAwaited) {
  if (std::getenv("XLA_FFI_KIT_CUDA_SYNC") != nullptr) GTEST_SKIP();
  EXPECT_EQ(Run(Call()), "");
  EXPECT_EQ(Calls("cuStreamSynchronize"), 0);
}

// With XLA_FFI_KIT_CUDA_SYNC=1 in the environment.
TEST_F(LaunchTest, IsAwaitedIfAskedTo) {
  if (std::getenv("XLA_FFI_KIT_CUDA_SYNC") == nullptr) GTEST_SKIP();
  EXPECT_EQ(Run(Call()), "");
  EXPECT_EQ(Calls("cuStreamSynchronize"), 1);
  driver_->is_capturing = true;
  EXPECT_EQ(Run(Call()), "");
  EXPECT_EQ(Calls("cuStreamSynchronize"), 1);
  driver_->is_capturing = false;
  driver_->failures = {{"cuStreamSynchronize", 719}};
  EXPECT_EQ(Run(Call()),
            "my.scale: the kernel failed: an error of the test "
            "(CUDA_ERROR_LAUNCH_FAILED)");
}

TEST_F(LaunchTest, RefusesTooMuchSharedMemory) {
  EXPECT_EQ(Run(Call().Attr("shared", int64_t{300000})),
            "my.scale: shared: expected at most 230400 bytes of dynamic shared "
            "memory, as this GPU has 232448 for a block and the kernel "
            "declares 2048, got 300000");
}

TEST_F(LaunchTest, RefusesProgramsByHand) {
  EXPECT_EQ(Run(Call().Attr("parameters", Numbers{3})),
            "my.scale: parameters: expected buffers below 3 and constants "
            "below 16 bytes, got 3");
  EXPECT_NE(Run(Call().Attr("shared", int64_t{-1})), "");
  const std::pair<const char*, Numbers> wrong[] = {
      {"parameters", {-18}}, {"grid", {1, 1}},     {"block", {-1, 1, 1}},
      {"items", {0, 3, 1}},  {"items", {3, 1, 1}}, {"items", {0, 1, 0}},
      {"items", {0, 1}}};
  for (const auto& [name, value] : wrong) {
    EXPECT_NE(Run(Call().Attr(name, value)), "") << name;
  }
  digest_ += " again";
  EXPECT_NE(Run(Call().Attr("code", std::string("sm_80 YQ=="))), "");
}

}  // namespace
}  // namespace xla_ffi_kit::launch
