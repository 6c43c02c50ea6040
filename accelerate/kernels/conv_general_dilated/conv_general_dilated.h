// Depthwise convolution of f32 in two spatial dimensions, on the CPU.
//
// Depthwise: each channel is convolved with a kernel of its own. Channels are
// the last axis of every array, one beside the other in memory.

#ifndef ACCELERATE_KERNELS_CONV_GENERAL_DILATED_CONV_GENERAL_DILATED_H_
#define ACCELERATE_KERNELS_CONV_GENERAL_DILATED_CONV_GENERAL_DILATED_H_

#include <cstdint>

#include "xla_ffi/core/call.h"

namespace xla_ffi_accelerate::conv_general_dilated {

using namespace xla_ffi_kit;  // its types and threads

// One spatial dimension of a convolution, as XLA defines it: element w of the
// window, placed at element o of the result, is over element
//
//   o * stride + w * window_dilation - padding
//
// of the base, and over a zero where that is not in [0, base).
struct ConvDimension {
  int64_t base = 1;  // sizes
  int64_t window = 1;
  int64_t result = 1;
  int64_t stride = 1;   // 1 to kMaxConvSize, like the dilation
  int64_t padding = 0;  // before the first element; or how many are left out
  int64_t window_dilation = 1;

  // Where window element w at result element o is.
  int64_t At(int64_t o, int64_t w) const {
    return o * stride + w * window_dilation - padding;
  }
  // Whether `at` is over an element of the base.
  bool IsInside(int64_t at) const { return at >= 0 && at < base; }
};

// So that no index overflows.
inline constexpr int64_t kMaxConvSize = int64_t{1} << 30;

struct DepthwiseConv {
  int64_t batch = 1;
  int64_t channels = 1;
  ConvDimension rows, columns;

  int64_t Taps() const { return rows.window * columns.window; }
};

// Each channel of `base` convolved with its own window. An element is a sum in
// row-major order of the window, begun with 0.0, zeros outside the base
// included. With `is_fused` each product and sum is
// rounded once, where the CPU can, and otherwise twice.
inline constexpr auto base =
    Operand{"base", TypeList<float>(), "(batch, base_rows, base_columns, c)"}
        .Where("base_rows", 0, kMaxConvSize)
        .Where("base_columns", 0, kMaxConvSize);
inline constexpr auto window =
    Operand{"window", SameDtype(base), "(rows, columns, c)"}
        .Where("rows", 0, kMaxConvSize)
        .Where("columns", 0, kMaxConvSize);
inline constexpr auto out =
    Result{"out", SameDtype(base), "(batch, out_rows, out_columns, c)"}
        .Where("out_rows", 0, kMaxConvSize)
        .Where("out_columns", 0, kMaxConvSize);
// For rows and columns each; padding may leave elements out.
inline constexpr auto strides =
    Attribute<Dimensions>{"strides"}.Elements(2).Between(1, kMaxConvSize);
inline constexpr auto padding =
    Attribute<Dimensions>{"padding"}.Elements(2).Between(-kMaxConvSize,
                                                         kMaxConvSize);
inline constexpr auto window_dilation =
    Attribute<Dimensions>{"window_dilation"}.Elements(2).Between(1,
                                                                 kMaxConvSize);
inline constexpr Attribute<int64_t> is_fused{"is_fused"};
inline constexpr char kConvName[] = "xla_ffi_accelerate.conv_general_dilated";
using ConvCall = Call<kConvName, base, window, out, strides, padding,
                      window_dilation, is_fused>;

}  // namespace xla_ffi_accelerate::conv_general_dilated

XLA_FFI_DECLARE_HANDLER_SYMBOL(XlaFfiAccelerateConvGeneralDilatedCpu);

#endif  // ACCELERATE_KERNELS_CONV_GENERAL_DILATED_CONV_GENERAL_DILATED_H_
