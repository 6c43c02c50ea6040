// The calls that are made of a signature. That handlers accept and refuse them,
// handlers/signatures_test.cc shows.

#include "xla_ffi/testing/frames.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "xla_ffi/core/call.h"
#include "xla_ffi/core/dtypes.h"
#include "xla_ffi/testing/frame_memory.h"

namespace xla_ffi_kit::testing {
namespace {

using Dims = CallFrame::Dims;

constexpr auto x =
    Operand{"x", TypeList<float, double>(), "(..., n)"}.Where("n", 2, 100'000);
constexpr auto w = Operand{"w", SameDtype(x), "(n)"}.Shared().Optional();
constexpr Result y{"y", x};
constexpr auto sums = Result{"sums", x}.GivenWith(w);
constexpr Result chosen{"chosen", TypeList<int32_t>(), "(..., count)"};
constexpr auto count = Attribute<int64_t>{"count"}.Between(0, 9);
constexpr auto eps = Attribute<double>{"eps"}.AtLeast(0).UnlessGiven(w);
constexpr Word mode{"mode", "fast", "exact"};
constexpr char kName[] = "test.frames";
constexpr const XlaFfiKit_Signature& kSignature =
    Call<kName, x, w, y, sums, chosen, count, eps, mode>::kSignature;

TEST(FitTest, IsWhatTheSignatureSays) {
  std::set<int64_t> ranks;
  std::set<size_t> operands, shared_ranks;
  for (uint32_t seed = 0; seed < 200; ++seed) {
    Choices choices(seed);
    CallFrame frame = Fit(kSignature, choices);
    const CallFrame::Buffer& in = frame.args()[0];
    const bool has_w = frame.args().size() == 2;
    const int64_t n = in.dims.back();
    ranks.insert(static_cast<int64_t>(in.dims.size()));
    operands.insert(frame.args().size());
    ASSERT_GE(n, 2);
    ASSERT_EQ(frame.rets().size(), has_w ? 3u : 2u);
    ASSERT_EQ(frame.rets()[0].dims, in.dims);
    Dims picked = in.dims;
    picked.back() = frame.attributes().Integer("count");
    ASSERT_EQ(frame.rets().back().dims, picked);
    ASSERT_LE(picked.back(), 9);
    const std::vector<std::string> names = frame.attributes().names();
    ASSERT_EQ(std::count(names.begin(), names.end(), "eps"), has_w ? 0 : 1);
    if (!has_w) continue;
    shared_ranks.insert(frame.args()[1].dims.size());
    ASSERT_EQ(frame.args()[1].dims.back(), n);
    ASSERT_EQ(frame.args()[1].dtype, in.dtype);
  }
  EXPECT_EQ(ranks, (std::set<int64_t>{1, 2, 3}));
  EXPECT_EQ(operands, (std::set<size_t>{1, 2}));
  EXPECT_EQ(shared_ranks, (std::set<size_t>{1, 2, 3}));
}

TEST(FitTest, LargeOnesAreAsLargeAsAsked) {
  constexpr int64_t kElements = 1 << 20;
  for (const Form form : kForms) {
    for (uint32_t seed = 0; seed < 4; ++seed) {
      Choices choices(seed);
      CallFrame frame = FitLarge(kSignature, choices, kElements, form);
      const CallFrame::Buffer& in = frame.args()[0];
      const int64_t n = in.dims.back();
      EXPECT_LE(CountOf(in), kElements);
      // A row of its own is as long as the signature lets it be.
      EXPECT_GE(CountOf(in), in.dims.size() == 1 ? 100'000 : kElements / 2);
      EXPECT_LE(n, 100'000);
      EXPECT_TRUE(form != Form::kShortRows || n < 10) << n;
      EXPECT_TRUE(form != Form::kThousandRows || in.dims[0] == 1000);
    }
  }
}

TEST(FitTest, EmptyOnesHaveAZeroAndHugeDimensions) {
  int huge = 0;
  for (uint32_t seed = 0; seed < 100; ++seed) {
    Choices choices(seed);
    CallFrame frame = FitEmpty(kSignature, choices);
    const Dims& dims = frame.args()[0].dims;
    EXPECT_EQ(std::count(dims.begin(), dims.end(), 0) > 0 ||
                  frame.attributes().Integer("count") == 0,
              true);
    huge += std::count(dims.begin(), dims.end(), kHugeDim) > 0;
  }
  EXPECT_GT(huge, 20);
}

TEST(MistakesTest, EveryMistakeOnce) {
  std::vector<float> data(64);
  std::vector<int32_t> numbers(64);
  const CallFrame good = CallFrame()
                             .Arg(data, {2, 3})
                             .Arg(data, {2, 3})
                             .Ret(data, {2, 3})
                             .Ret(data, {2, 3})
                             .Ret(numbers, {2, 4})
                             .Attr("count", int64_t{4})
                             .Attr("mode", "fast");
  std::set<std::string> mistakes;
  for (const Mistake& mistake : Mistakes(kSignature, good)) {
    mistakes.insert(mistake.what);
  }
  for (const char* mistake : {"no operand",
                              "one operand more",
                              "one result more",
                              "one result fewer",
                              "operand x: dtype 10",
                              "operand w: dtype 12",
                              "operand x: axis 0 longer",
                              "operand x: axis 1 longer",
                              "operand x: an axis more",
                              "operand x: an axis fewer",
                              "operand x: too few axes",
                              "operand x: no data",
                              "operand w: more axes than rows have",
                              "operand w: axis 0 longer",
                              "result y: axis 1 longer",
                              "result y: no data",
                              "n of 1",
                              "n of 100001",
                              "result chosen: axis 1 longer",
                              "count, the attribute, of another value",
                              "count of -1",
                              "count of 10",
                              "no count",
                              "count misspelled",
                              "count a string",
                              "count an array, or none",
                              "count of another dtype",
                              "mode of no such word",
                              "mode a dictionary",
                              "eps, which an argument replaces",
                              "an attribute more"}) {
    EXPECT_EQ(mistakes.count(mistake), 1u) << mistake;
  }
  const CallFrame without_w = CallFrame()
                                  .Arg(data, {2, 3})
                                  .Ret(data, {2, 3})
                                  .Ret(numbers, {2, 4})
                                  .Attr("count", int64_t{4})
                                  .Attr("eps", 0.5)
                                  .Attr("mode", "fast");
  std::set<std::string> of_eps;
  for (const Mistake& mistake : Mistakes(kSignature, without_w)) {
    of_eps.insert(mistake.what);
  }
  for (const char* mistake :
       {"eps of -1", "eps of inf", "eps of nan", "no eps"}) {
    EXPECT_EQ(of_eps.count(mistake), 1u) << mistake;
  }
  // Right in themselves: x alone says how many rows of which dtype there are.
  EXPECT_EQ(mistakes.count("operand x: dtype 12"), 0u);
  EXPECT_EQ(mistakes.count("operand w: an axis fewer"), 0u);
}

TEST(FrameMemoryTest, SeesWhatIsWritten) {
  CallFrame frame = CallFrame()
                        .Arg(XLA_FFI_DataType_F32, nullptr, {4})
                        .Ret(XLA_FFI_DataType_F32, nullptr, {4})
                        .Ret(XLA_FFI_DataType_F32, nullptr, {0, 1 << 30});
  FrameMemory memory(frame);
  auto* const operand = static_cast<float*>(frame.args()[0].data);
  auto* const result = static_cast<float*>(frame.rets()[0].data);
  EXPECT_EQ(frame.rets()[1].data, nullptr);
  std::memset(result, 1, 4 * sizeof(float));
  EXPECT_EQ(memory.Violation(), "");
  EXPECT_EQ(memory.Results(), std::string(16, '\1'));
  operand[3] += 1;
  EXPECT_EQ(memory.Violation(), "a write into operand 0");
  memory.Keep();
  EXPECT_EQ(memory.Violation(), "");
#if !defined(__SANITIZE_ADDRESS__)  // which ends the program
  result[4] = 1;
  EXPECT_EQ(memory.Violation(), "a write beside buffer 1");
#endif
}

}  // namespace
}  // namespace xla_ffi_kit::testing
