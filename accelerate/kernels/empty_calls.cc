// Calls of every handler of the package with arrays that have no elements.

#include <cstdint>
#include <string>
#include <vector>

#include "xla/ffi/api/ffi.h"
#include "xla_ffi/testing/call_frame.h"
#include "xla_ffi/testing/handlers/handler_calls.h"

namespace xla_ffi_kit::testing {
namespace {

namespace ffi = ::xla::ffi;
using Axes = std::vector<int64_t>;
using Cases = std::vector<CallFrame>;
using Dims = CallFrame::Dims;

// Calls with arrays of any rank, one of whose axes is empty; `batch` may be
// too.
Cases OfRank1(const std::string& op, const Dims& batch, int64_t n) {
  using ffi::S32, ffi::U32, ffi::PRED;
  const Dims x = Plus(batch, {n});
  const auto last = static_cast<int64_t>(batch.size());
  Cases cases;
  if (op == "argmax") {
    for (int64_t axis = 0; axis <= last; ++axis) {
      Dims rest = x;
      rest.erase(rest.begin() + axis);
      cases.push_back(MakeEmptyFrame({{x}}, {{rest, S32}})
                          .Attr("axis", axis)
                          .Attr("of", std::string("max")));
    }
  } else if (op == "cumulative") {
    for (int64_t axis = 0; axis <= last; ++axis) {
      for (const char* of : {"sum", "max"}) {
        cases.push_back(MakeEmptyFrame({{x}}, {{x}})
                            .Attr("axis", axis)
                            .Attr("op", std::string(of))
                            .Attr("reverse", int64_t{0}));
      }
    }
  } else if (op == "cumlogsumexp") {
    cases = {MakeEmptyFrame({{x}}, {{x}}).Attr("reverse", false)};
  } else if (op == "isin") {
    cases = {
        MakeEmptyFrame({{x}, {Plus(batch, {0})}}, {{x, PRED}}),
        MakeEmptyFrame({{Plus(batch, {0})}, {x}}, {{Plus(batch, {0}), PRED}})};
  } else if (op == "nonzero") {
    for (const int64_t size : {int64_t{0}, n}) {
      cases.push_back(MakeEmptyFrame({{x, PRED}}, {{Plus(batch, {size}), S32}})
                          .Attr("size", size)
                          .Attr("fill", int64_t{0}));
    }
  } else if (op == "random_bits") {
    for (const bool partitionable : {false, true}) {
      cases.push_back(MakeEmptyFrame({{{2}, U32}}, {{x, U32}})
                          .Attr("partitionable", partitionable));
      cases.push_back(MakeEmptyFrame({{Plus(batch, {2}), U32}}, {{x, U32}})
                          .Attr("partitionable", partitionable));
    }
  } else if (op == "sort") {
    cases = {MakeEmptyFrame({{x}}, {{x}}).Attr("num_keys", int64_t{1}),
             MakeEmptyFrame({{x}, {x, S32}}, {{x}, {x, S32}})
                 .Attr("num_keys", int64_t{1}),
             MakeEmptyFrame({{x, ffi::F16}}, {{x, ffi::F16}})
                 .Attr("num_keys", int64_t{1})};
  } else if (op == "threefry2x32") {
    cases = {MakeEmptyFrame({{{}, U32}, {{}, U32}, {x, U32}, {x, U32}},
                            {{x, U32}, {x, U32}}),
             MakeEmptyFrame({{x, U32}, {x, U32}, {x, U32}, {x, U32}},
                            {{x, U32}, {x, U32}})};
  } else if (op == "top_k") {
    for (const int64_t k : {int64_t{0}, n}) {
      const Dims chosen = Plus(batch, {k});
      cases.push_back(MakeEmptyFrame({{x}}, {{chosen}, {chosen, S32}}));
    }
  }
  return cases;
}

// Calls with matrices: `batch`, then rows and columns.
Cases OfMatrices(const std::string& op, const Dims& batch) {
  const Dims square = Plus(batch, {4, 4}), rows = Plus(batch, {4});
  if (op == "linalg_cholesky") return {MakeEmptyFrame({{square}}, {{square}})};
  if (op == "linalg_eigh") {
    return {MakeEmptyFrame({{square}}, {{square}, {rows}})
                .Attr("is_lower", int64_t{1})};
  }
  if (op == "linalg_lu") {
    return {MakeEmptyFrame({{square}},
                           {{square}, {rows, ffi::S32}, {rows, ffi::S32}})};
  }
  Cases cases;
  if (op == "linalg_triangular_solve") {
    for (const int64_t columns : {int64_t{0}, int64_t{3}, kHugeDim}) {
      const Dims b = Plus(batch, {4, columns});
      cases.push_back(MakeEmptyFrame({{square}, {b}}, {{b}})
                          .Attr("is_left", int64_t{1})
                          .Attr("is_lower", int64_t{1})
                          .Attr("is_transposed", int64_t{0})
                          .Attr("is_diagonal_one", int64_t{0}));
    }
  }
  if (op == "dot_general") {
    const auto size = static_cast<int64_t>(batch.size());
    Axes axes;
    for (int64_t i = 0; i < size; ++i) axes.push_back(i);
    for (const int64_t m : {0, 3}) {
      for (const int64_t k : {0, 3}) {
        cases.push_back(
            MakeEmptyFrame({{Plus(batch, {m, k})}, {Plus(batch, {k, 3})}},
                           {{Plus(batch, {m, 3})}})
                .Attr("lhs_batch", axes)
                .Attr("rhs_batch", axes)
                .Attr("lhs_contracting", Axes{size + 1})
                .Attr("rhs_contracting", Axes{size})
                .Attr("order", std::string("fma")));
      }
    }
  }
  return cases;
}

// Calls with arrays of fixed ranks, and a zero in each dimension in turn.
Cases OfFixedRank(const std::string& op) {
  using ffi::S32;
  const int64_t zeros[][2] = {
      {0, kHugeDim}, {kHugeDim, 0}, {0, 0}, {kHugeDim, 3}};
  Cases cases;
  for (const auto& [a, b] : zeros) {
    const Dims dense = {a, kHugeDim, b}, data = {a, b};
    if (op == "bcoo_dot_general") {
      for (const int64_t contracting : {0, 1}) {
        cases.push_back(
            MakeEmptyFrame({{data}, {{a, b, 2}, S32}, {dense}}, {{dense}})
                .Attr("contracting", contracting));
      }
    } else if (op == "bcsr_dot_general") {
      cases.push_back(MakeEmptyFrame(
          {{data}, {data, S32}, {{a, kHugeDim + 1}, S32}, {dense}}, {{dense}}));
    }
    for (const int64_t side : {int64_t{0}, int64_t{8}, int64_t{1} << 30}) {
      const Dims images = {a, side, side, b}, window = {3, 3, b};
      const Dims other = {a, side == 8 ? 3 : side, 3, b};
      const Axes ones = {1, 1};
      if (op == "select_and_scatter_add") {
        cases.push_back(MakeEmptyFrame({{images}, {images}}, {{images}})
                            .Attr("window", ones)
                            .Attr("strides", ones)
                            .Attr("padding", Axes{0, 0})
                            .Attr("is_min", int64_t{0}));
      }
      CallFrame conv;
      if (op == "conv_general_dilated") {
        conv = MakeEmptyFrame({{images}, {window}}, {{images}})
                   .Attr("is_fused", int64_t{1});
      } else if (op == "conv_general_dilated_kernel_gradient") {
        conv = MakeEmptyFrame({{images}, {other}}, {{window}});
      } else {
        continue;
      }
      cases.push_back(conv.Attr("strides", ones)
                          .Attr("padding", ones)
                          .Attr("base_dilation", ones)
                          .Attr("window_dilation", ones));
    }
  }
  return cases;
}

}  // namespace

Cases EmptyCalls(const std::string& target) {
  const std::string op =
      target.substr(std::string("xla_ffi_accelerate.").size());
  Cases cases = OfFixedRank(op);
  const auto of_rank1 = [&](const Dims& batch, int64_t n) {
    return OfRank1(op, batch, n);
  };
  const auto of_matrices = [&](const Dims& batch) {
    return OfMatrices(op, batch);
  };
  for (CallFrame& c : OverEmptyBatches(of_rank1, of_matrices)) {
    cases.push_back(c);
  }
  return cases;
}

}  // namespace xla_ffi_kit::testing
