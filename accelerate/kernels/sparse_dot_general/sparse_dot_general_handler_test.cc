#include "accelerate/kernels/sparse_dot_general/sparse_dot_general_handler.h"

#include <cstdint>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "xla_ffi/testing/bad_frames.h"
#include "xla_ffi/testing/call_frame.h"

namespace xla_ffi_accelerate::sparse_dot_general {
namespace {

namespace testing = ::xla_ffi_kit::testing;

using testing::CallFrame;

// | 0 2 0 |
// | 5 0 3 |
class SparseDotGeneralHandlerTest : public ::testing::Test {
 protected:
  std::vector<double> data_ = {2, 3, 5}, out_ = std::vector<double>(8),
                      rhs_ = {1, 2, 10, 20, 100, 200, 3, 4, 30, 40, 300, 400};
  std::vector<int32_t> coordinates_ = {0, 1, 1, 2, 1, 0};
  std::vector<int64_t> indices_ = {1, 2, 0}, indptr_ = {0, 1, 3};

  CallFrame Bcoo(int64_t contracting = 1) {
    return CallFrame()
        .Arg(data_, {1, 3})
        .Arg(coordinates_, {1, 3, 2})
        .Arg(rhs_, {2, 3, 2})
        .Ret(out_, {2, 2, 2})
        .Attr("contracting", contracting);
  }

  CallFrame Bcsr() {
    return CallFrame()
        .Arg(data_, {1, 3})
        .Arg(indices_, {1, 3})
        .Arg(indptr_, {1, 3})
        .Arg(rhs_, {2, 3, 2})
        .Ret(out_, {2, 2, 2});
  }
};

const std::vector<double> kWant = {20, 40, 305, 610, 60, 80, 915, 1220};

TEST_F(SparseDotGeneralHandlerTest, OneMatrixForTheWholeBatch) {
  EXPECT_EQ(Bcoo().Run(XlaFfiAccelerateBcooDotGeneralCpu).message, "");
  EXPECT_EQ(out_, kWant);
  out_.assign(8, 0);
  EXPECT_EQ(Bcsr().Run(XlaFfiAccelerateBcsrDotGeneralCpu).message, "");
  EXPECT_EQ(out_, kWant);
}

TEST_F(SparseDotGeneralHandlerTest, TheOtherIndexContracted) {
  std::vector<double> rhs = {1, 10}, out(3);
  EXPECT_EQ(CallFrame()
                .Arg(data_, {1, 3})
                .Arg(coordinates_, {1, 3, 2})
                .Arg(rhs, {1, 2, 1})
                .Ret(out, {1, 3, 1})
                .Attr("contracting", int64_t{0})
                .Run(XlaFfiAccelerateBcooDotGeneralCpu)
                .message,
            "");
  EXPECT_EQ(out, (std::vector<double>{50, 2, 30}));
}

TEST_F(SparseDotGeneralHandlerTest, RefusesBadFrames) {
  testing::ExpectRefusesBadFrames(XlaFfiAccelerateBcooDotGeneralCpu, Bcoo());
  testing::ExpectRefusesBadFrames(XlaFfiAccelerateBcsrDotGeneralCpu, Bcsr());
}

TEST_F(SparseDotGeneralHandlerTest, RefusesNullData) {
  testing::ExpectRefusesNullData(
      XlaFfiAccelerateBcooDotGeneralCpu, Bcoo(),
      "xla_ffi_accelerate.bcoo_dot_general",
      {"operand data", "operand indices", "operand rhs", "result out"});
  testing::ExpectRefusesNullData(
      XlaFfiAccelerateBcsrDotGeneralCpu, Bcsr(),
      "xla_ffi_accelerate.bcsr_dot_general",
      {"operand data", "operand indices", "operand indptr", "operand rhs",
       "result out"});
}

TEST_F(SparseDotGeneralHandlerTest, SaysWhatItExpects) {
  const auto message = [](CallFrame frame, bool is_bcoo, size_t arg,
                          CallFrame::Dims dims) {
    auto& buffers = arg < 4 ? frame.args() : frame.rets();
    buffers[arg % 4].dims = dims;
    return frame
        .Run(is_bcoo ? XlaFfiAccelerateBcooDotGeneralCpu
                     : XlaFfiAccelerateBcsrDotGeneralCpu)
        .message;
  };
  const std::string bcoo = "xla_ffi_accelerate.bcoo_dot_general: ",
                    bcsr = "xla_ffi_accelerate.bcsr_dot_general: ",
                    or_one = " (or a first dimension of 1) from the others, ";
  EXPECT_EQ(Bcoo(2).Run(XlaFfiAccelerateBcooDotGeneralCpu).message,
            bcoo + "attribute contracting: expected 0 to 1, got 2");
  EXPECT_EQ(message(Bcoo(), true, 0, {3, 1}),
            bcoo + "operand data: expected shape (2, 1)" + or_one +
                "got shape (3, 1)");
  EXPECT_EQ(message(Bcoo(), true, 1, {1, 2, 3}),
            bcoo + "operand indices: expected shape (1, 3, 2)" + or_one +
                "got shape (1, 2, 3)");
  EXPECT_EQ(message(Bcoo(), true, 2, {2, 6}),
            bcoo + "operand rhs: expected rank 3, got rank 2");
  EXPECT_EQ(message(Bcoo(), true, 4, {2, 4, 1}),
            bcoo + "operand rhs: expected shape (2, 3, 1)" + or_one +
                "got shape (2, 3, 2)");
  EXPECT_EQ(message(Bcsr(), false, 2, {1, 2}),
            bcsr + "operand indptr: expected shape (1, 3)" + or_one +
                "got shape (1, 2)");
}

}  // namespace
}  // namespace xla_ffi_accelerate::sparse_dot_general
