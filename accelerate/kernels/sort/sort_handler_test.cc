#include "accelerate/kernels/sort/sort_handler.h"

#include <cstdint>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "xla_ffi/testing/bad_frames.h"
#include "xla_ffi/testing/call_frame.h"

namespace xla_ffi_accelerate::sort {
namespace {

namespace testing = ::xla_ffi_kit::testing;

using testing::CallFrame;
using testing::Status;

void ExpectRefused(const Status& status, const std::string& message) {
  testing::ExpectInvalid(status, "xla_ffi_accelerate.sort: " + message);
}

TEST(SortHandlerTest, SortsEachRowWithItsPayload) {
  std::vector<float> key = {2, 1, 2, 0, -1, 0}, key_out(6);
  std::vector<int32_t> index = {0, 1, 2, 0, 1, 2}, index_out(6);
  const Status status = CallFrame()
                            .Arg(key, {2, 1, 3})
                            .Arg(index, {2, 1, 3})
                            .Ret(key_out, {2, 1, 3})
                            .Ret(index_out, {2, 1, 3})
                            .Attr("num_keys", int64_t{1})
                            .Run(XlaFfiAccelerateSortCpu);
  EXPECT_TRUE(status.ok()) << status.message;
  EXPECT_EQ(key_out, (std::vector<float>{1, 2, 2, -1, 0, 0}));
  EXPECT_EQ(index_out, (std::vector<int32_t>{1, 0, 2, 1, 0, 2}));
}

TEST(SortHandlerTest, ThreadsShareOneLongRow) {
  const int64_t n = 200'000;
  std::vector<int32_t> key(n), out(n);
  for (int64_t i = 0; i < n; ++i) key[i] = i * 7919 % n;
  ASSERT_TRUE(CallFrame()
                  .Arg(key, {n})
                  .Ret(out, {n})
                  .Attr("num_keys", int64_t{1})
                  .Threads(3)
                  .Run(XlaFfiAccelerateSortCpu)
                  .ok());
  for (int64_t i = 0; i < n; ++i) ASSERT_EQ(out[i], i);
}

Status SortInts(CallFrame::Dims dims, CallFrame::Dims out_dims,
                int64_t num_keys) {
  std::vector<int32_t> x(6), y(6);
  return CallFrame()
      .Arg(x, dims)
      .Ret(y, out_dims)
      .Attr("num_keys", num_keys)
      .Run(XlaFfiAccelerateSortCpu);
}

TEST(SortHandlerTest, RefusesBadFrames) {
  std::vector<float> key = {2, 1}, key_out(2);
  std::vector<int32_t> index = {0, 1}, index_out(2);
  testing::ExpectRefusesBadFrames(XlaFfiAccelerateSortCpu,
                                  CallFrame()
                                      .Arg(key, {2})
                                      .Arg(index, {2})
                                      .Ret(key_out, {2})
                                      .Ret(index_out, {2})
                                      .Attr("num_keys", int64_t{1}));
}

TEST(SortHandlerTest, EmptyArraysAreNoWork) {
  EXPECT_TRUE(SortInts({0, 3}, {0, 3}, 1).ok());
  EXPECT_TRUE(SortInts({3, 0}, {3, 0}, 1).ok());
}

TEST(SortHandlerTest, RefusesWhatDoesNotFit) {
  ExpectRefused(SortInts({}, {}, 1),
                "operand 0: expected rank >= 1, got rank 0");
  ExpectRefused(SortInts({3}, {2}, 1),
                "result 0: expected shape (3) like operand 0, got shape (2)");
  ExpectRefused(SortInts({3}, {3}, 0),
                "attribute num_keys: expected 1 or more, got 0");
  ExpectRefused(SortInts({3}, {3}, 2),
                "attribute num_keys: expected 1 to 1, got 2");
  ExpectRefused(
      CallFrame().Attr("num_keys", int64_t{1}).Run(XlaFfiAccelerateSortCpu),
      "operands: expected 1 or more, got 0");
  std::vector<float> x(4), y(4);
  ExpectRefused(CallFrame()
                    .Arg(x, {4})
                    .Attr("num_keys", int64_t{1})
                    .Run(XlaFfiAccelerateSortCpu),
                "results: expected 1, one per operand, got 0");
  ExpectRefused(CallFrame()
                    .Arg(x, {4})
                    .Arg(x, {2})
                    .Ret(y, {4})
                    .Ret(y, {2})
                    .Attr("num_keys", int64_t{1})
                    .Run(XlaFfiAccelerateSortCpu),
                "operand 1: expected shape (4) like operand 0, got shape (2)");
}

TEST(SortHandlerTest, ComplexIsPayloadButNoKey) {
  double x[4] = {2, 0, 1, 0}, y[4];
  ExpectRefused(CallFrame()
                    .Arg(XLA_FFI_DataType_C128, x, {2})
                    .Ret(XLA_FFI_DataType_C128, y, {2})
                    .Attr("num_keys", int64_t{1})
                    .Run(XlaFfiAccelerateSortCpu),
                "key operand 0: expected one of the dtypes pred, s8, s16, s32, "
                "s64, u8, u16, u32, u64, f16, bf16, f32, f64, got c128");
  std::vector<int64_t> key = {2, 1}, sorted(2);
  ASSERT_TRUE(CallFrame()
                  .Arg(key, {2})
                  .Arg(XLA_FFI_DataType_C128, x, {2})
                  .Ret(sorted, {2})
                  .Ret(XLA_FFI_DataType_C128, y, {2})
                  .Attr("num_keys", int64_t{1})
                  .Run(XlaFfiAccelerateSortCpu)
                  .ok());
  EXPECT_EQ(y[0], 1);
  EXPECT_EQ(y[2], 2);
}

TEST(SortHandlerTest, RefusesNullDataOfElements) {
  std::vector<int32_t> x(2), y(2);
  testing::ExpectRefusesNullData(
      XlaFfiAccelerateSortCpu,
      CallFrame().Arg(x, {2}).Arg(x, {2}).Ret(y, {2}).Ret(y, {2}).Attr(
          "num_keys", int64_t{1}),
      "xla_ffi_accelerate.sort",
      {"operand 0", "operand 1", "result 0", "result 1"});
}

}  // namespace
}  // namespace xla_ffi_accelerate::sort
