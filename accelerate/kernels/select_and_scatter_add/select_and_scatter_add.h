// The gradient of max and min pooling in two dimensions, on the CPU.

#ifndef ACCELERATE_KERNELS_SELECT_AND_SCATTER_ADD_SELECT_AND_SCATTER_ADD_H_
#define ACCELERATE_KERNELS_SELECT_AND_SCATTER_ADD_SELECT_AND_SCATTER_ADD_H_

#include <cstdint>

#include "xla_ffi/core/call.h"

namespace xla_ffi_accelerate::select_and_scatter_add {

using namespace xla_ffi_kit;  // its types and threads

// One pooled dimension: the window at element o of the pooled array is over
// elements o * stride - padding and the window - 1 next ones of the operand.
struct PoolDimension {
  int64_t size = 1;    // of the operand
  int64_t pooled = 1;  // of the pooled array
  int64_t window = 1;
  int64_t stride = 1;
  int64_t padding = 0;
};

// So that no offset overflows, and 32 bits hold the number of any element of a
// window.
inline constexpr int64_t kMaxPoolSize = int64_t{1} << 30;
inline constexpr int64_t kMaxPoolWindow = int64_t{1} << 15;

struct Pool {
  int64_t outer = 1;  // how many images there are
  int64_t inner = 1;  // channels, the last axis
  PoolDimension rows, columns;
  bool is_min = false;
};

// Selects one element of each window. The elements are compared in row-major
// order, and the one selected so far stays if it is >= the next one (<= with
// is_min). The first of equal elements therefore stays, and a NaN is replaced.
// Elements outside the operand are -infinity (infinity). The result starts as
// 0.0. Each element of the source is added to it at the place that its window
// selected, in row-major order of the source, unless that place is outside.
inline constexpr auto source =
    Operand{"source", TypeList<float, double>(),
            "(batch, pooled_rows, pooled_columns, c)"}
        .Where("pooled_rows", 0, kMaxPoolSize)
        .Where("pooled_columns", 0, kMaxPoolSize);
inline constexpr auto operand =
    Operand{"operand", SameDtype(source), "(batch, rows, columns, c)"}
        .Where("rows", 0, kMaxPoolSize)
        .Where("columns", 0, kMaxPoolSize);
inline constexpr Result result{"result", operand};
// For rows and columns each.
inline constexpr auto window =
    Attribute<Dimensions>{"window"}.Elements(2).Between(1, kMaxPoolWindow);
inline constexpr auto strides =
    Attribute<Dimensions>{"strides"}.Elements(2).Between(1, kMaxPoolSize);
inline constexpr auto padding =
    Attribute<Dimensions>{"padding"}.Elements(2).Between(0, kMaxPoolWindow);
inline constexpr Attribute<int64_t> is_min{"is_min"};
inline constexpr char kName[] = "xla_ffi_accelerate.select_and_scatter_add";
using PoolCall =
    Call<kName, source, operand, result, window, strides, padding, is_min>;

}  // namespace xla_ffi_accelerate::select_and_scatter_add

XLA_FFI_DECLARE_HANDLER_SYMBOL(XlaFfiAccelerateSelectAndScatterAddCpu);

#endif  // ACCELERATE_KERNELS_SELECT_AND_SCATTER_ADD_SELECT_AND_SCATTER_ADD_H_
