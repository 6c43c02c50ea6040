#include "xla_ffi/testing/bad_frames.h"

#include <set>
#include <string>
#include <vector>

#include "gtest/gtest-spi.h"
#include "gtest/gtest.h"
#include "xla/ffi/api/ffi.h"
#include "xla_ffi/testing/call_frame.h"

namespace xla_ffi_kit::testing {
namespace {

namespace ffi = ::xla::ffi;

TEST(BadFramesTest, EveryMistakeOnce) {
  std::vector<float> x(2), y(2);
  std::set<std::string> mistakes;
  for (const BadFrame& bad :
       BadFrames(CallFrame().Arg(x, {2}).Ret(y, {2}).Attr("eps", 1.0))) {
    EXPECT_TRUE(mistakes.insert(bad.mistake).second) << bad.mistake;
  }
  // 2 lists x (2 counts + 4 dtypes + 2 ranks + null) + 1 + 6 of the attribute
  EXPECT_EQ(mistakes.size(), 25u);
  for (const char* mistake :
       {"one operand fewer", "result 0 null", "operand 0 of rank 0",
        "no attribute eps", "eps a dictionary", "an additional attribute"}) {
    EXPECT_EQ(mistakes.count(mistake), 1u) << mistake;
  }
}

// Accepts any buffers, and writes to a result that is there.
ffi::Error Careless(ffi::RemainingArgs, ffi::RemainingRets rets) {
  if (rets.empty()) return ffi::Error::InvalidArgument("no result");
  auto y = rets.get<ffi::AnyBuffer>(0);
  auto* data = static_cast<char*>((*y)->untyped_data());
  if (data != nullptr) ++*data;
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER(kCareless, Careless,
                       ffi::Ffi::Bind().RemainingArgs().RemainingRets());

TEST(BadFramesTest, ReportsWhatAHandlerLetsPass) {
  static std::vector<float> y(2);
  ::testing::TestPartResultArray failures;
  {
    ::testing::ScopedFakeTestPartResultReporter reporter(
        ::testing::ScopedFakeTestPartResultReporter::
            INTERCEPT_ONLY_CURRENT_THREAD,
        &failures);
    ExpectRefusesBadFrames(kCareless, CallFrame().Ret(y, {2}));
  }
  std::string all;
  for (int i = 0; i < failures.size(); ++i) {
    all += failures.GetTestPartResult(i).message();
  }
  for (const char* text :
       {"result 0 null", "one result more", "an additional attribute",
        "result 0 of rank 0: wrote to a result"}) {
    EXPECT_NE(all.find(text), std::string::npos) << text;
  }
  EXPECT_EQ(all.find("one result fewer"), std::string::npos);
}

}  // namespace
}  // namespace xla_ffi_kit::testing
