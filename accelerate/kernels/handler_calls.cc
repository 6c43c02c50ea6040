// Calls of every handler of the package.

#include "xla_ffi/testing/handlers/handler_calls.h"

#include <cstdint>
#include <string>
#include <vector>

#include "xla/ffi/api/ffi.h"
#include "xla_ffi/testing/call_frame.h"

namespace xla_ffi_kit::testing {
namespace {

namespace ffi = ::xla::ffi;

int64_t CountOf(const CallFrame::Buffer& buffer) {
  int64_t count = 1;
  for (const int64_t dim : buffer.dims) count *= dim;
  return count;
}

// Fills in where the rows of a BCSR matrix begin.
void FillRowStarts(CallFrame& frame) {
  const CallFrame::Buffer& starts = frame.args()[2];
  const int64_t entries = CountOf(frame.args()[0]), rows = CountOf(starts);
  for (int64_t i = 0; i < rows; ++i) {
    static_cast<int32_t*>(starts.data)[i] =
        static_cast<int32_t>(i * entries / rows);
  }
}

// Calls with arrays of about that many elements.
class Calls {
 public:
  explicit Calls(int64_t size)
      : size_(size), line_({size}), table_({kRows, size / kRows}) {}

  std::vector<HandlerCall> SortCases() {
    std::vector<HandlerCall> cases;
    const auto add = [&](const std::vector<ffi::DataType>& dtypes,
                         int64_t bytes_an_element) {
      for (const CallFrame::Dims& dims : {line_, table_}) {
        const std::vector<CallFrame::Dims> all(dtypes.size(), dims);
        cases.push_back(
            {MakeFrame(dtypes, all, dtypes, all).Attr("num_keys", int64_t{1}),
             bytes_an_element * size_});
      }
    };
    add({ffi::F32}, 0);
    add({ffi::S64}, 0);
    add({ffi::F16}, 8);
    add({ffi::F32, ffi::S32}, 8);
    add({ffi::F64, ffi::S32}, 16);
    return cases;
  }

  std::vector<HandlerCall> TopKCases() {
    std::vector<HandlerCall> cases;
    const auto add = [&](const CallFrame::Dims& dims, int64_t k,
                         int64_t scratch) {
      CallFrame::Dims chosen = dims;
      chosen.back() = k;
      cases.push_back({MakeFrame({ffi::F32}, {dims}, {ffi::F32, ffi::S32},
                                 {chosen, chosen}),
                       scratch});
    };
    add(line_, 64, 32 * (2 * 64 + 256));
    add(line_, size_ / 333, 32 * (2 * size_ / 333));
    add(line_, size_ / 10, 12 * size_);
    add(table_, 64, kHandlerCallThreads * 12 * table_[1]);
    return cases;
  }

  std::vector<HandlerCall> CumulativeCases() {
    std::vector<HandlerCall> cases;
    for (const ffi::DataType dtype : {ffi::F32, ffi::BF16, ffi::S32}) {
      for (const CallFrame::Dims& dims : {line_, table_}) {
        for (int64_t axis = 0; axis < static_cast<int64_t>(dims.size());
             ++axis) {
          cases.push_back({MakeFrame({dtype}, {dims}, {dtype}, {dims})
                               .Attr("axis", axis)
                               .Attr("op", std::string("sum"))
                               .Attr("reverse", int64_t{0}),
                           0});
        }
      }
    }
    return cases;
  }

  std::vector<HandlerCall> ArgmaxCases() {
    std::vector<HandlerCall> cases;
    const auto add = [&](const CallFrame::Dims& dims,
                         const CallFrame::Dims& result, int64_t axis) {
      cases.push_back({MakeFrame({ffi::F32}, {dims}, {ffi::S32}, {result})
                           .Attr("axis", axis)
                           .Attr("of", std::string("max")),
                       0});
    };
    add(line_, {}, 0);
    add(table_, {table_[1]}, 0);
    add(table_, {table_[0]}, 1);
    return cases;
  }

  // A row of zeros; and 16 results, which are summed.
  std::vector<HandlerCall> ConvCases(bool is_gradient) {
    using ffi::F32;
    const int64_t channels = size_ / 64;
    const CallFrame::Dims image = {1, 8, 8, channels};
    const CallFrame::Dims small = {3, 3, channels};
    const std::vector<int64_t> ones = {1, 1};
    CallFrame frame =
        is_gradient ? MakeFrame({F32, F32}, {image, image}, {F32}, {small})
                    : MakeFrame({F32, F32}, {image, small}, {F32}, {image})
                          .Attr("is_fused", int64_t{1});
    frame.Attr("strides", ones)
        .Attr("padding", ones)
        .Attr("base_dilation", ones)
        .Attr("window_dilation", ones);
    return {{frame, 4 * channels * (is_gradient ? 16 * 9 : 1)}};
  }

  std::vector<HandlerCall> DotGeneralCases() {
    using Axes = std::vector<int64_t>;
    const CallFrame::Dims dims = {size_ / 16, 4, 4};
    return {{MakeFrame({ffi::F32, ffi::F32}, {dims, dims}, {ffi::F32}, {dims})
                 .Attr("lhs_batch", Axes{0})
                 .Attr("rhs_batch", Axes{0})
                 .Attr("lhs_contracting", Axes{1})
                 .Attr("rhs_contracting", Axes{2})
                 .Attr("order", std::string("fma")),
             0}};
  }

  std::vector<HandlerCall> SparseCases(bool is_bcoo) {
    using ffi::F32, ffi::S32;
    const int64_t side = size_ / 200, entries = size_ / 10;
    const CallFrame::Dims dense = {1, side, 100}, data = {1, entries};
    if (is_bcoo) {
      return {{MakeFrame({F32, S32, F32}, {data, {1, entries, 2}, dense}, {F32},
                         {dense})
                   .Attr("contracting", int64_t{1}),
               0}};
    }
    return {{MakeFrame({F32, S32, S32, F32}, {data, data, {1, side + 1}, dense},
                       {F32}, {dense}),
             0, 0, FillRowStarts}};
  }

  std::vector<HandlerCall> PoolCases() {
    const CallFrame::Dims images = {1, 64, 64, size_ / 4096},
                          pooled = {1, 32, 32, size_ / 4096};
    const std::vector<int64_t> two = {2, 2}, none = {0, 0};
    return {
        {MakeFrame({ffi::F32, ffi::F32}, {pooled, images}, {ffi::F32}, {images})
             .Attr("window", two)
             .Attr("strides", two)
             .Attr("padding", none)
             .Attr("is_min", int64_t{0}),
         0}};
  }

  // Returns the calls of the factorizations, or of solves.
  std::vector<HandlerCall> LinalgCases(const std::string& which) {
    using ffi::F32;
    const CallFrame::Dims a = {size_ / 16, 4, 4}, rows = {size_ / 16, 4};
    if (which == "lu") {
      return {
          {MakeFrame({F32}, {a}, {F32, ffi::S32, ffi::S32}, {a, rows, rows}),
           0}};
    }
    if (which == "eigh") {
      return {{MakeFrame({F32}, {a}, {F32, F32}, {a, rows})
                   .Attr("is_lower", int64_t{1}),
               0}};
    }
    if (which == "cholesky") return {{MakeFrame({F32}, {a}, {F32}, {a}), 0}};
    return {{MakeFrame({F32, F32}, {a, a}, {F32}, {a})
                 .Attr("is_left", int64_t{1})
                 .Attr("is_lower", int64_t{1})
                 .Attr("is_transposed", int64_t{0})
                 .Attr("is_diagonal_one", int64_t{0}),
             0}};
  }

  HandlerCallMap All() {
    using ffi::F32;
    const int64_t tests = size_ / 10;
    const std::string package = "xla_ffi_accelerate.";
    return {
        {package + "argmax", ArgmaxCases()},
        {package + "bcoo_dot_general", SparseCases(true)},
        {package + "bcsr_dot_general", SparseCases(false)},
        {package + "conv_general_dilated", ConvCases(false)},
        {package + "conv_general_dilated_kernel_gradient", ConvCases(true)},
        {package + "cumlogsumexp",
         {{MakeFrame({F32}, {table_}, {F32}, {table_}).Attr("reverse", true),
           0}}},
        {package + "cumulative", CumulativeCases()},
        {package + "dot_general", DotGeneralCases()},
        // A table of up to 4 times the tests, and the tests.
        {package + "isin",
         {{MakeFrame({F32, F32}, {line_, {tests}}, {ffi::PRED}, {line_}),
           5 * 4 * tests}}},
        {package + "linalg_cholesky", LinalgCases("cholesky")},
        {package + "linalg_eigh", LinalgCases("eigh")},
        {package + "linalg_lu", LinalgCases("lu")},
        {package + "linalg_triangular_solve", LinalgCases("triangular_solve")},
        {package + "nonzero",
         {{MakeFrame({ffi::PRED}, {line_}, {ffi::S32}, {line_})
               .Attr("size", size_)
               .Attr("fill", int64_t{0}),
           0}}},
        {package + "random_bits",
         {{MakeFrame({ffi::U32}, {{2}}, {ffi::U32}, {line_})
               .Attr("partitionable", true),
           0}}},
        {package + "select_and_scatter_add", PoolCases()},
        {package + "sort", SortCases()},
        {package + "threefry2x32",
         {{MakeFrame({ffi::U32, ffi::U32, ffi::U32, ffi::U32},
                     {{}, {}, line_, line_}, {ffi::U32, ffi::U32},
                     {line_, line_}),
           0}}},
        {package + "top_k", TopKCases()},
    };
  }

 private:
  static constexpr int64_t kRows = 1000;
  const int64_t size_;
  const CallFrame::Dims line_, table_;
};

}  // namespace

HandlerCallMap HandlerCalls(int64_t size) { return Calls(size).All(); }

HandlerCallMap SharedRowCalls(int64_t size) {
  constexpr int64_t kMost = kMaxHandlerCallBytes;
  const CallFrame::Dims mask = {kMost / 4}, bytes = {kMost};
  HandlerCallMap calls;
  const auto add = [&](const std::string& op, const CallFrame& frame) {
    calls["xla_ffi_accelerate." + op].push_back({frame});
  };
  add("argmax", MakeFrame({ffi::PRED}, {bytes}, {ffi::S32}, {{}})
                    .Attr("axis", int64_t{0})
                    .Attr("of", std::string("max")));
  add("cumulative", MakeFrame({ffi::S32}, {{size}}, {ffi::S32}, {{size}})
                        .Attr("axis", int64_t{0})
                        .Attr("op", std::string("max"))
                        .Attr("reverse", int64_t{1}));
  add("nonzero", MakeFrame({ffi::PRED}, {mask}, {ffi::S32}, {{kMost / 8}})
                     .Attr("size", kMost / 8)
                     .Attr("fill", int64_t{0}));
  // Two keys of few values: threads share the runs of equal ones, too.
  const std::vector<CallFrame::Dims> three(3, {size / 2});
  const std::vector<ffi::DataType> dtypes(3, ffi::S32);
  add("sort",
      MakeFrame(dtypes, three, dtypes, three).Attr("num_keys", int64_t{2}));
  return calls;
}

}  // namespace xla_ffi_kit::testing
