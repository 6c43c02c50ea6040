// A call of each handler that no simple frame of the fuzzer would reach.

#include "xla_ffi/testing/fuzz/example_calls.h"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "xla/ffi/api/ffi.h"
#include "xla_ffi/testing/attributes.h"

namespace xla_ffi_kit::testing {
namespace {

using ::xla::ffi::DataType;
using Integers = std::vector<int64_t>;

Attributes Convolution() {
  Attributes attributes;
  attributes.Set("strides", Integers{1, 2}).Set("padding", Integers{1, -1});
  attributes.Set("base_dilation", Integers{1, 1});
  attributes.Set("window_dilation", Integers{2, 1});
  return attributes;
}

Attributes Pooling() {
  Attributes attributes;
  attributes.Set("window", Integers{2, 2}).Set("strides", Integers{2, 1});
  attributes.Set("padding", Integers{1, 0}).Set("is_min", int64_t{0});
  return attributes;
}

Attributes Product() {
  Attributes attributes;
  attributes.Set("lhs_batch", Integers{0}).Set("rhs_batch", Integers{1});
  attributes.Set("lhs_contracting", Integers{2});
  attributes.Set("rhs_contracting", Integers{0}).Set("order", "fma");
  return attributes;
}

Attributes Solve() {
  Attributes attributes;
  attributes.Set("is_left", int64_t{1}).Set("is_lower", int64_t{1});
  attributes.Set("is_transposed", int64_t{0});
  attributes.Set("is_diagonal_one", int64_t{0});
  return attributes;
}

Attributes Of(const std::string& name, int64_t value) {
  Attributes attributes;
  attributes.Set(name, value);
  return attributes;
}

Attributes Partitionable() {
  Attributes attributes;
  attributes.Set("partitionable", true);
  return attributes;
}

std::map<std::string_view, ExampleCall> All() {
  std::map<std::string_view, ExampleCall> calls = {
      {"xla_ffi_accelerate.bcoo_dot_general",
       {{{{1, 5}}, {{1, 5, 2}, DataType::S32}, {{1, 4, 3}}},
        {{{1, 6, 3}}},
        Of("contracting", 1)}},
      {"xla_ffi_accelerate.bcsr_dot_general",
       {{{{2, 5}},
         {{2, 5}, DataType::S64},
         {{2, 7}, DataType::S64},
         {{2, 4, 3}}},
        {{{2, 6, 3}}},
        {}}},
      {"xla_ffi_accelerate.conv_general_dilated",
       {{{{2, 5, 7, 18}}, {{2, 3, 18}}}, {{{2, 5, 2, 18}}}, Convolution()}},
      {"xla_ffi_accelerate.conv_general_dilated_kernel_gradient",
       {{{{2, 5, 7, 18}}, {{2, 2, 3, 18}}}, {{{5, 2, 18}}}, Convolution()}},
      {"xla_ffi_accelerate.dot_general",
       {{{{9, 3, 4}}, {{4, 9, 5}}}, {{{9, 3, 5}}}, Product()}},
      {"xla_ffi_accelerate.linalg_cholesky",
       {{{{3, 4, 4}}}, {{{3, 4, 4}}}, {}}},
      {"xla_ffi_accelerate.linalg_eigh",
       {{{{3, 4, 4}}}, {{{3, 4, 4}}, {{3, 4}}}, Of("is_lower", 1)}},
      {"xla_ffi_accelerate.linalg_lu",
       {{{{3, 4, 4}}},
        {{{3, 4, 4}}, {{3, 4}, DataType::S32}, {{3, 4}, DataType::S32}},
        {}}},
      {"xla_ffi_accelerate.linalg_triangular_solve",
       {{{{3, 4, 4}}, {{3, 4, 2}}}, {{{3, 4, 2}}}, Solve()}},
      {"xla_ffi_accelerate.random_bits",
       {{{{3, 2}, DataType::U32}}, {{{3, 5}, DataType::U64}}, Partitionable()}},
      {"xla_ffi_accelerate.select_and_scatter_add",
       {{{{2, 2, 6, 18}}, {{2, 4, 7, 18}}}, {{{2, 4, 7, 18}}}, Pooling()}},
      {"xla_ffi_accelerate.threefry2x32",
       {{{{}, DataType::U32},
         {{}, DataType::U32},
         {{4, 5}, DataType::U32},
         {{4, 5}, DataType::U32}},
        {{{4, 5}, DataType::U32}, {{4, 5}, DataType::U32}},
        {}}},
  };
  calls["xla_ffi_accelerate.conv_general_dilated"].attributes.Set("is_fused",
                                                                  int64_t{1});
  return calls;
}

}  // namespace

const ExampleCall* ExampleCallOf(std::string_view target) {
  static const auto& calls =
      *new std::map<std::string_view, ExampleCall>(All());
  const auto found = calls.find(target);
  return found == calls.end() ? nullptr : &found->second;
}

}  // namespace xla_ffi_kit::testing
