// The most memory that any handler of the kit allocates during a call, as
// docs/accelerate.md promises it to users.

#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "xla/ffi/api/ffi.h"
#include "xla_ffi/core/handler_table.h"
#include "xla_ffi/ops/counted_memory.h"
#include "xla_ffi/registry/registry.h"
#include "xla_ffi/testing/call_frame.h"

namespace xla_ffi_kit {
namespace {

using testing::CallFrame;
namespace ffi = ::xla::ffi;

constexpr int64_t kThreads = 3;
// Of a thread, whatever the operands; the call frame's own is in it.
constexpr int64_t kOfThreads = kThreads * (int64_t{64} << 10);
// Large scratch is rounded up to huge pages (host_scratch.h), and malloc keeps
// what is left of aligning it.
constexpr int64_t kLarge = int64_t{4} << 20, kOfHugePages = int64_t{4} << 20;
constexpr int64_t kLong = 1'000'000;  // what all threads share
constexpr int64_t kRows = 1000;       // of kLong / kRows elements

// Memory of zeros for operands and results of any dtype.
void* Bytes(int which) {
  constexpr int64_t kBytes = kLong * 8;
  static void* memory[6] = {};
  void*& of_this = memory[which];
  if (of_this == nullptr) of_this = std::calloc(1, kBytes);
  return memory[which];
}

struct Case {
  CallFrame frame;
  int64_t scratch;  // bytes, beside kOfThreads
};

XLA_FFI_DataType C(ffi::DataType dtype) {
  return static_cast<XLA_FFI_DataType>(dtype);
}

// Operands, then results; each in memory of its own.
CallFrame Frame(const std::vector<ffi::DataType>& args,
                const std::vector<CallFrame::Dims>& arg_dims,
                const std::vector<ffi::DataType>& rets,
                const std::vector<CallFrame::Dims>& ret_dims) {
  CallFrame frame;
  int next = 0;
  for (size_t i = 0; i < args.size(); ++i) {
    frame.Arg(C(args[i]), Bytes(next++), arg_dims[i]);
  }
  for (size_t i = 0; i < rets.size(); ++i) {
    frame.Ret(C(rets[i]), Bytes(next++), ret_dims[i]);
  }
  return frame;
}

const CallFrame::Dims kLine = {kLong}, kTable = {kRows, kLong / kRows};

std::vector<Case> SortCases() {
  std::vector<Case> cases;
  const auto add = [&](const std::vector<ffi::DataType>& dtypes,
                       int64_t bytes_an_element) {
    for (const CallFrame::Dims& dims : {kLine, kTable}) {
      const std::vector<CallFrame::Dims> all(dtypes.size(), dims);
      cases.push_back(
          {Frame(dtypes, all, dtypes, all).Attr("num_keys", int64_t{1}),
           bytes_an_element * kLong});
    }
  };
  add({ffi::F32}, 0);
  add({ffi::S64}, 0);
  add({ffi::F16}, 8);
  add({ffi::F32, ffi::S32}, 8);
  add({ffi::F64, ffi::S32}, 16);
  return cases;
}

std::vector<Case> TopKCases() {
  std::vector<Case> cases;
  const auto add = [&](const CallFrame::Dims& dims, int64_t k,
                       int64_t scratch) {
    CallFrame::Dims chosen = dims;
    chosen.back() = k;
    cases.push_back(
        {Frame({ffi::F32}, {dims}, {ffi::F32, ffi::S32}, {chosen, chosen}),
         scratch});
  };
  add(kLine, 64, 32 * (2 * 64 + 256));
  add(kLine, 3000, 32 * (2 * 3000));
  add(kLine, 100'000, 12 * kLong);
  add(kTable, 64, kThreads * 12 * kTable[1]);
  return cases;
}

std::vector<Case> CumulativeCases() {
  std::vector<Case> cases;
  for (const ffi::DataType dtype : {ffi::F32, ffi::BF16, ffi::S32}) {
    for (const CallFrame::Dims& dims : {kLine, kTable}) {
      for (int64_t axis = 0; axis < static_cast<int64_t>(dims.size()); ++axis) {
        cases.push_back({Frame({dtype}, {dims}, {dtype}, {dims})
                             .Attr("axis", axis)
                             .Attr("op", std::string("sum"))
                             .Attr("reverse", int64_t{0}),
                         0});
      }
    }
  }
  return cases;
}

std::vector<Case> ArgmaxCases() {
  std::vector<Case> cases;
  const auto add = [&](const CallFrame::Dims& dims,
                       const CallFrame::Dims& result, int64_t axis) {
    cases.push_back({Frame({ffi::F32}, {dims}, {ffi::S32}, {result})
                         .Attr("axis", axis)
                         .Attr("of", std::string("max")),
                     0});
  };
  add(kLine, {}, 0);
  add(kTable, {kTable[1]}, 0);
  add(kTable, {kTable[0]}, 1);
  return cases;
}

// A row of zeros; and 16 results, which are summed.
std::vector<Case> ConvCases(bool is_gradient) {
  using ffi::F32;
  constexpr int64_t kChannels = kLong / 64;
  const CallFrame::Dims image = {1, 8, 8, kChannels};
  const CallFrame::Dims small = {3, 3, kChannels};
  const std::vector<int64_t> ones = {1, 1};
  CallFrame frame = is_gradient
                        ? Frame({F32, F32}, {image, image}, {F32}, {small})
                        : Frame({F32, F32}, {image, small}, {F32}, {image})
                              .Attr("is_fused", int64_t{1});
  frame.Attr("strides", ones)
      .Attr("padding", ones)
      .Attr("base_dilation", ones)
      .Attr("window_dilation", ones);
  return {{frame, 4 * kChannels * (is_gradient ? 16 * 9 : 1)}};
}

std::vector<Case> DotGeneralCases() {
  using Axes = std::vector<int64_t>;
  const CallFrame::Dims dims = {kLong / 16, 4, 4};
  return {{Frame({ffi::F32, ffi::F32}, {dims, dims}, {ffi::F32}, {dims})
               .Attr("lhs_batch", Axes{0})
               .Attr("rhs_batch", Axes{0})
               .Attr("lhs_contracting", Axes{1})
               .Attr("rhs_contracting", Axes{2})
               .Attr("order", std::string("fma")),
           0}};
}

std::vector<Case> SparseCases(bool is_bcoo) {
  using ffi::F32, ffi::S32;
  constexpr int64_t kSide = 5000, kEntries = 100'000;
  const CallFrame::Dims dense = {1, kSide, 100}, data = {1, kEntries};
  if (is_bcoo) {
    return {
        {Frame({F32, S32, F32}, {data, {1, kEntries, 2}, dense}, {F32}, {dense})
             .Attr("contracting", int64_t{1}),
         0}};
  }
  return {{Frame({F32, S32, S32, F32}, {data, data, {1, kSide + 1}, dense},
                 {F32}, {dense}),
           0}};
}

std::vector<Case> PoolCases() {
  const CallFrame::Dims images = {1, 64, 64, kLong / 4096},
                        pooled = {1, 32, 32, kLong / 4096};
  const std::vector<int64_t> two = {2, 2}, none = {0, 0};
  return {{Frame({ffi::F32, ffi::F32}, {pooled, images}, {ffi::F32}, {images})
               .Attr("window", two)
               .Attr("strides", two)
               .Attr("padding", none)
               .Attr("is_min", int64_t{0}),
           0}};
}

// Of the factorizations, or of solves.
std::vector<Case> LinalgCases(const std::string& which) {
  using ffi::F32;
  const CallFrame::Dims a = {kLong / 16, 4, 4}, rows = {kLong / 16, 4};
  if (which == "lu") {
    return {{Frame({F32}, {a}, {F32, ffi::S32, ffi::S32}, {a, rows, rows}), 0}};
  }
  if (which == "eigh") {
    return {
        {Frame({F32}, {a}, {F32, F32}, {a, rows}).Attr("is_lower", int64_t{1}),
         0}};
  }
  if (which == "cholesky") return {{Frame({F32}, {a}, {F32}, {a}), 0}};
  return {{Frame({F32, F32}, {a, a}, {F32}, {a})
               .Attr("is_left", int64_t{1})
               .Attr("is_lower", int64_t{1})
               .Attr("is_transposed", int64_t{0})
               .Attr("is_diagonal_one", int64_t{0}),
           0}};
}

std::vector<Case> RmsNormCases(const std::string& which) {
  using ffi::F32;
  const CallFrame::Dims scale = {kRows}, weight = {kTable[1]};
  if (which == "") {
    return {{Frame({F32, F32, F32}, {kTable, weight, kTable}, {F32, F32},
                   {kTable, kTable})
                 .Attr("eps", 1e-6),
             0}};
  }
  if (which == "_bwd") {
    return {
        {Frame({F32, F32, F32}, {kTable, kTable, scale}, {F32}, {kTable}), 0}};
  }
  return {{Frame({F32, F32, F32, F32}, {kTable, kTable, scale, weight},
                 {F32, F32}, {kTable, weight}),
           0}};
}

// Of each target.
std::map<std::string, std::vector<Case>> AllCases() {
  using ffi::F32;
  constexpr int64_t kTests = 100'000;
  const std::string kit = "xla_ffi_kit.";
  return {
      {kit + "argmax", ArgmaxCases()},
      {kit + "bcoo_dot_general", SparseCases(true)},
      {kit + "bcsr_dot_general", SparseCases(false)},
      {kit + "conv_general_dilated", ConvCases(false)},
      {kit + "conv_general_dilated_kernel_gradient", ConvCases(true)},
      {kit + "cumlogsumexp",
       {{Frame({F32}, {kTable}, {F32}, {kTable}).Attr("reverse", true), 0}}},
      {kit + "cumulative", CumulativeCases()},
      {kit + "dot_general", DotGeneralCases()},
      // A table of up to 4 times the tests, and the tests.
      {kit + "isin",
       {{Frame({F32, F32}, {kLine, {kTests}}, {ffi::PRED}, {kLine}),
         5 * 4 * kTests}}},
      {kit + "linalg_cholesky", LinalgCases("cholesky")},
      {kit + "linalg_eigh", LinalgCases("eigh")},
      {kit + "linalg_lu", LinalgCases("lu")},
      {kit + "linalg_triangular_solve", LinalgCases("triangular_solve")},
      {kit + "modular_add",
       {{Frame({F32, F32}, {kTable, kTable}, {F32}, {kTable}), 0}}},
      {kit + "nonzero",
       {{Frame({ffi::PRED}, {kLine}, {ffi::S32}, {kLine})
             .Attr("size", kLong)
             .Attr("fill", int64_t{0}),
         0}}},
      {kit + "random_bits",
       {{Frame({ffi::U32}, {{2}}, {ffi::U32}, {kLine})
             .Attr("partitionable", true),
         0}}},
      {kit + "relu", {{Frame({F32}, {kLine}, {F32}, {kLine}), 0}}},
      {kit + "rms_norm", RmsNormCases("")},
      {kit + "rms_norm_bwd", RmsNormCases("_bwd")},
      {kit + "rms_norm_weight_bwd", RmsNormCases("_weight_bwd")},
      {kit + "select_and_scatter_add", PoolCases()},
      {kit + "sort", SortCases()},
      {kit + "threefry2x32",
       {{Frame({ffi::U32, ffi::U32, ffi::U32, ffi::U32}, {{}, {}, kLine, kLine},
               {ffi::U32, ffi::U32}, {kLine, kLine}),
         0}}},
      {kit + "top_k", TopKCases()},
  };
}

TEST(ScratchBoundsTest, HoldForEveryHandlerOfTheKit) {
  if (!testing::kCountsMemory) GTEST_SKIP() << "a sanitizer allocates";
  std::map<std::string, std::vector<Case>> all = AllCases();
  const XlaFfiKit_HandlerTable* table = XlaFfiKit_CpuHandlerTable();
  ASSERT_GT(table->num_handlers, 0u);
  for (size_t i = 0; i < table->num_handlers; ++i) {
    const XlaFfiKit_Handler& handler = table->handlers[i];
    SCOPED_TRACE(handler.name);
    ASSERT_TRUE(all.count(handler.name)) << "has no case in this test";
    for (Case& c : all[handler.name]) {
      c.frame.Threads(kThreads);
      const int64_t of_pages = c.scratch >= kLarge ? kOfHugePages : 0;
      EXPECT_LE(testing::PeakOfCall(handler.execute, c.frame),
                c.scratch + kOfThreads + of_pages)
          << "case " << &c - all[handler.name].data();
    }
  }
}

TEST(ScratchBoundsTest, WhatMallocAndNewGiveIsCounted) {
  if (!testing::kCountsMemory) GTEST_SKIP() << "a sanitizer allocates";
  const testing::PeakMemory peak;
  {
    const auto bytes = std::make_unique<std::vector<char>>(1000);
    void* volatile aligned = std::aligned_alloc(64, 64'000);  // not elided
    std::free(aligned);
  }
  EXPECT_GE(peak.bytes(), 65'000);
  EXPECT_LE(peak.bytes(), 66'000);
  const testing::PeakMemory later;
  EXPECT_EQ(later.bytes(), 0);
}

}  // namespace
}  // namespace xla_ffi_kit
