// Depthwise convolution in two spatial dimensions, and the gradient of its
// kernel, on the CPU.
//
// Depthwise: each channel is convolved with a kernel of its own. Channels are
// the last axis of every array, one beside the other in memory.

#ifndef ACCELERATE_KERNELS_CONV_GENERAL_DILATED_CONV_GENERAL_DILATED_H_
#define ACCELERATE_KERNELS_CONV_GENERAL_DILATED_CONV_GENERAL_DILATED_H_

#include <cstdint>

#include "xla_ffi/core/executor.h"

namespace xla_ffi_accelerate::conv_general_dilated {

using namespace xla_ffi_kit;  // its types and threads

// One spatial dimension of a convolution, as XLA defines it: element w of the
// window, placed at element o of the result, is over element
//
//   (o * stride + w * window_dilation - padding) / base_dilation
//
// of the base, and over a zero where that is no integer in [0, base).
struct ConvDimension {
  int64_t base = 1;  // sizes, at most kMaxConvSize
  int64_t window = 1;
  int64_t result = 1;
  int64_t stride = 1;   // 1 to kMaxConvSize, like both dilations
  int64_t padding = 0;  // before the first element; or how many are left out
  int64_t base_dilation = 1;
  int64_t window_dilation = 1;

  // Where window element w at result element o is, before the base's dilation.
  int64_t At(int64_t o, int64_t w) const {
    return o * stride + w * window_dilation - padding;
  }
  // Whether `at` is over an element of the base, number at / base_dilation.
  bool IsInside(int64_t at) const {
    return at >= 0 && at % base_dilation == 0 && at / base_dilation < base;
  }
};

// So that no index overflows.
inline constexpr int64_t kMaxConvSize = int64_t{1} << 30;

struct DepthwiseConv {
  int64_t batch = 1;
  int64_t channels = 1;
  ConvDimension rows, columns;

  int64_t Taps() const { return rows.window * columns.window; }
};

// base[batch, rows, columns, channels] convolved with window[rows, columns,
// channels] gives result[batch, rows, columns, channels].
//
// Each element is a sum in row-major order of the window, begun with 0.0, zeros
// outside the base included unless the base is dilated. With `is_fused` each
// product and sum is rounded once, where the CPU can, and otherwise twice.
// `zeros`: as many as there are channels. T: float or double.
template <typename T>
void RunDepthwiseConv(const DepthwiseConv& conv, const T* base, const T* window,
                      const T* zeros, bool is_fused, T* result,
                      const Executor& executor);

// How many elements of scratch the next function needs, at most 2^31.
int64_t DepthwiseKernelGradientScratch(const DepthwiseConv& conv);

// result[rows, columns, channels]: the sum over batch, and over the `window`
// [batch, rows, columns, channels] placed there on `base`, of the products.
// The order does not depend on the number of threads. `scratch` holds that many
// elements. T: float or double.
template <typename T>
void RunDepthwiseKernelGradient(const DepthwiseConv& conv, const T* base,
                                const T* window, T* scratch, T* result,
                                const Executor& executor);

}  // namespace xla_ffi_accelerate::conv_general_dilated

#endif  // ACCELERATE_KERNELS_CONV_GENERAL_DILATED_CONV_GENERAL_DILATED_H_
