// Arrays without elements, of dimensions whose product 64 bits do not hold:
// every handler of the kit takes or refuses them, and does so at once.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "xla/ffi/api/ffi.h"
#include "xla_ffi/core/handler_table.h"
#include "xla_ffi/registry/registry.h"
#include "xla_ffi/testing/call_frame.h"

namespace xla_ffi_kit {
namespace {

using testing::CallFrame;
using Dims = CallFrame::Dims;
using Axes = std::vector<int64_t>;
namespace ffi = ::xla::ffi;

// The product of two, modulo 2^64, is no zero.
constexpr int64_t kHuge = (int64_t{1} << 40) + 1;

struct Buffer {
  Dims dims;
  ffi::DataType dtype = ffi::F32;
};

// Of what has elements, as few as results of empty operands can have.
void* Data(const Dims& dims) {
  alignas(64) static char memory[1 << 12] = {};
  int64_t bytes = 8;
  for (const int64_t dim : dims) {
    if (dim == 0 || dim > static_cast<int64_t>(sizeof memory) / bytes) {
      return nullptr;
    }
    bytes *= dim;
  }
  return memory;
}

CallFrame Frame(const std::vector<Buffer>& operands,
                const std::vector<Buffer>& results) {
  const auto dtype = [](const Buffer& buffer) {
    return static_cast<XLA_FFI_DataType>(buffer.dtype);
  };
  CallFrame frame;
  for (const Buffer& b : operands) frame.Arg(dtype(b), Data(b.dims), b.dims);
  for (const Buffer& b : results) frame.Ret(dtype(b), Data(b.dims), b.dims);
  return frame;
}

Dims Plus(Dims dims, const Dims& more) {
  dims.insert(dims.end(), more.begin(), more.end());
  return dims;
}

using Cases = std::vector<CallFrame>;

// Of any rank, where `batch` has elements or not, and one axis has none.
Cases OfRank1(const std::string& op, const Dims& batch, int64_t n) {
  using ffi::S32, ffi::U32, ffi::PRED;
  const Dims x = Plus(batch, {n});
  const auto last = static_cast<int64_t>(batch.size());
  Cases cases;
  if (op == "argmax") {
    for (int64_t axis = 0; axis <= last; ++axis) {
      Dims rest = x;
      rest.erase(rest.begin() + axis);
      cases.push_back(Frame({{x}}, {{rest, S32}})
                          .Attr("axis", axis)
                          .Attr("of", std::string("max")));
    }
  } else if (op == "cumulative") {
    for (int64_t axis = 0; axis <= last; ++axis) {
      for (const char* of : {"sum", "max"}) {
        cases.push_back(Frame({{x}}, {{x}})
                            .Attr("axis", axis)
                            .Attr("op", std::string(of))
                            .Attr("reverse", int64_t{0}));
      }
    }
  } else if (op == "cumlogsumexp") {
    cases = {Frame({{x}}, {{x}}).Attr("reverse", false)};
  } else if (op == "isin") {
    cases = {Frame({{x}, {Plus(batch, {0})}}, {{x, PRED}}),
             Frame({{Plus(batch, {0})}, {x}}, {{Plus(batch, {0}), PRED}})};
  } else if (op == "modular_add") {
    cases = {Frame({{x}, {x}}, {{x}}),
             Frame({{x}, {Plus(batch, {0})}}, {{Plus(batch, {0})}})};
  } else if (op == "nonzero") {
    for (const int64_t size : {int64_t{0}, n}) {
      cases.push_back(Frame({{x, PRED}}, {{Plus(batch, {size}), S32}})
                          .Attr("size", size)
                          .Attr("fill", int64_t{0}));
    }
  } else if (op == "random_bits") {
    for (const bool partitionable : {false, true}) {
      cases.push_back(
          Frame({{{2}, U32}}, {{x, U32}}).Attr("partitionable", partitionable));
      cases.push_back(Frame({{Plus(batch, {2}), U32}}, {{x, U32}})
                          .Attr("partitionable", partitionable));
    }
  } else if (op == "relu") {
    cases = {Frame({{x}}, {{x}})};
  } else if (op == "rms_norm") {
    cases = {Frame({{x}}, {{x}, {batch}}).Attr("eps", 1e-6),
             Frame({{x}, {{n}}, {x}}, {{x}, {x}, {batch}}).Attr("eps", 1e-6),
             Frame({{x}, {x}}, {{x}}).Attr("eps", 1e-6)};
  } else if (op == "rms_norm_bwd") {
    cases = {Frame({{x}, {x}, {batch}}, {{x}}),
             Frame({{x}, {x}}, {{x}}).Attr("eps", 1e-6)};
  } else if (op == "rms_norm_weight_bwd") {
    cases = {Frame({{x}, {x}, {batch}, {{n}}}, {{x}, {{n}}}),
             Frame({{x}, {x}, {batch}, {x}}, {{x}, {x}})};
  } else if (op == "sort") {
    cases = {
        Frame({{x}}, {{x}}).Attr("num_keys", int64_t{1}),
        Frame({{x}, {x, S32}}, {{x}, {x, S32}}).Attr("num_keys", int64_t{1}),
        Frame({{x, ffi::F16}}, {{x, ffi::F16}}).Attr("num_keys", int64_t{1})};
  } else if (op == "threefry2x32") {
    cases = {
        Frame({{{}, U32}, {{}, U32}, {x, U32}, {x, U32}}, {{x, U32}, {x, U32}}),
        Frame({{x, U32}, {x, U32}, {x, U32}, {x, U32}}, {{x, U32}, {x, U32}})};
  } else if (op == "top_k") {
    for (const int64_t k : {int64_t{0}, n}) {
      const Dims chosen = Plus(batch, {k});
      cases.push_back(Frame({{x}}, {{chosen}, {chosen, S32}}));
    }
  }
  return cases;
}

// Of matrices: `batch`, then rows and columns.
Cases OfMatrices(const std::string& op, const Dims& batch) {
  const Dims square = Plus(batch, {4, 4}), rows = Plus(batch, {4});
  if (op == "linalg_cholesky") return {Frame({{square}}, {{square}})};
  if (op == "linalg_eigh") {
    return {Frame({{square}}, {{square}, {rows}}).Attr("is_lower", int64_t{1})};
  }
  if (op == "linalg_lu") {
    return {Frame({{square}}, {{square}, {rows, ffi::S32}, {rows, ffi::S32}})};
  }
  Cases cases;
  if (op == "linalg_triangular_solve") {
    for (const int64_t columns : {int64_t{0}, int64_t{3}, kHuge}) {
      const Dims b = Plus(batch, {4, columns});
      cases.push_back(Frame({{square}, {b}}, {{b}})
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
        cases.push_back(Frame({{Plus(batch, {m, k})}, {Plus(batch, {k, 3})}},
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

// Of fixed ranks, with a zero in one place or another.
Cases OfFixedRank(const std::string& op) {
  using ffi::S32;
  const int64_t zeros[][2] = {{0, kHuge}, {kHuge, 0}, {0, 0}, {kHuge, 3}};
  Cases cases;
  for (const auto& [a, b] : zeros) {
    const Dims dense = {a, kHuge, b}, data = {a, b};
    if (op == "bcoo_dot_general") {
      for (const int64_t contracting : {0, 1}) {
        cases.push_back(Frame({{data}, {{a, b, 2}, S32}, {dense}}, {{dense}})
                            .Attr("contracting", contracting));
      }
    } else if (op == "bcsr_dot_general") {
      cases.push_back(Frame(
          {{data}, {data, S32}, {{a, kHuge + 1}, S32}, {dense}}, {{dense}}));
    }
    for (const int64_t side : {int64_t{0}, int64_t{8}, int64_t{1} << 30}) {
      const Dims images = {a, side, side, b}, window = {3, 3, b};
      const Dims other = {a, side == 8 ? 3 : side, 3, b};
      const Axes ones = {1, 1};
      if (op == "select_and_scatter_add") {
        cases.push_back(Frame({{images}, {images}}, {{images}})
                            .Attr("window", ones)
                            .Attr("strides", ones)
                            .Attr("padding", Axes{0, 0})
                            .Attr("is_min", int64_t{0}));
      }
      CallFrame conv;
      if (op == "conv_general_dilated") {
        conv = Frame({{images}, {window}}, {{images}})
                   .Attr("is_fused", int64_t{1});
      } else if (op == "conv_general_dilated_kernel_gradient") {
        conv = Frame({{images}, {other}}, {{window}});
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

TEST(EmptyArraysTest, AreTakenAtOnceOrRefused) {
  const XlaFfiKit_HandlerTable* table = XlaFfiKit_CpuHandlerTable();
  const std::vector<Dims> batches = {
      {0}, {kHuge}, {0, kHuge, kHuge}, {kHuge, kHuge, 0}, {kHuge, kHuge}};
  for (size_t i = 0; i < table->num_handlers; ++i) {
    const XlaFfiKit_Handler& handler = table->handlers[i];
    SCOPED_TRACE(handler.name);
    const std::string op =
        std::string(handler.name).substr(std::string("xla_ffi_kit.").size());
    Cases cases = OfFixedRank(op);
    for (const Dims& batch : batches) {
      const bool is_empty = batch.front() == 0 || batch.back() == 0;
      for (const int64_t n : {int64_t{0}, int64_t{3}, kHuge}) {
        if (!is_empty && n != 0) continue;
        for (CallFrame& c : OfRank1(op, batch, n)) cases.push_back(c);
      }
      if (!is_empty) continue;
      for (CallFrame& c : OfMatrices(op, batch)) cases.push_back(c);
    }
    EXPECT_FALSE(cases.empty()) << "has no case in this test";
    int taken = 0;
    for (CallFrame& c : cases) {
      for (const int64_t threads : {1, 3}) {
        const testing::Status status = c.Threads(threads).Run(handler.execute);
        EXPECT_TRUE(status.ok() ||
                    status.code == XLA_FFI_Error_Code_INVALID_ARGUMENT)
            << status.message;
        taken += status.ok();
      }
    }
    EXPECT_GT(taken, 0);
  }
}

}  // namespace
}  // namespace xla_ffi_kit
