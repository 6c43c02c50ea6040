#include "xla_ffi/testing/handlers/handler_calls.h"

#include <cstdint>
#include <set>
#include <stdexcept>
#include <vector>

#include "gtest/gtest.h"
#include "xla/ffi/api/ffi.h"

namespace xla_ffi_kit::testing {
namespace {

namespace ffi = ::xla::ffi;

TEST(MakeFrameTest, AnyNumberOfArraysHaveMemoryOfTheirOwn) {
  const std::vector<ffi::DataType> dtypes(9, ffi::F32);
  const std::vector<CallFrame::Dims> dims(9, {4});
  CallFrame frame = MakeFrame(dtypes, dims, dtypes, dims);
  std::set<void*> memory;
  for (const CallFrame::Buffer& x : frame.args()) memory.insert(x.data);
  for (const CallFrame::Buffer& y : frame.rets()) memory.insert(y.data);
  EXPECT_EQ(memory.size(), 18u);
  EXPECT_EQ(memory.count(nullptr), 0u);
  EXPECT_EQ(MakeFrame(dtypes, dims, {}, {}).args()[8].data,
            frame.args()[8].data);
}

TEST(MakeFrameTest, RefusesWhatItsMemoryDoesNotHold) {
  const int64_t most = kMaxHandlerCallBytes / 16;
  EXPECT_NO_THROW(MakeFrame({ffi::C128}, {{most}}, {}, {}));
  EXPECT_THROW(MakeFrame({ffi::C128}, {{most + 1}}, {}, {}), std::length_error);
  EXPECT_THROW(MakeFrame({}, {}, {ffi::C128}, {{2, most}}), std::length_error);
}

}  // namespace
}  // namespace xla_ffi_kit::testing
