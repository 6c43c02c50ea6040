#include "accelerate/kernels/conv_general_dilated/conv_general_dilated.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "xla_ffi/core/handler.h"
#include "xla_ffi/core/simd_targets.h"

// Compiles the rest of this file once per instruction set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE \
  "accelerate/kernels/conv_general_dilated/conv_general_dilated.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// Must come after foreach_target.h.
#include "accelerate/core/simd_blocks-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace xla_ffi_accelerate::conv_general_dilated {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using xla_ffi_accelerate::HWY_NAMESPACE::ForBlocks;

// Block size, in columns of the result: each element of the window is loaded
// once for them.
constexpr int64_t kColumns = 4;

template <bool kFused, class V>
HWY_INLINE V AddProduct(V a, V b, V sum) {
  return kFused ? hn::MulAdd(a, b, sum) : hn::Add(sum, hn::Mul(a, b));
}

// The columns of a result in whose windows every column is inside the base.
struct Interior {
  explicit Interior(const ConvDimension& p) {
    const int64_t last = p.At(0, p.window - 1);
    if (last >= p.base) return;
    const int64_t first = std::max<int64_t>(p.padding, 0) + p.stride - 1;
    begin = std::min(first / p.stride, p.result);
    end = std::clamp((p.base - 1 - last) / p.stride + 1, begin, p.result);
  }
  int64_t begin = 0, end = 0;
};

// One row of the result.
template <bool kFused>
struct RowOfResult {
  const DepthwiseConv& conv;
  const float* base;  // of this batch element
  const float* window;
  const float* zeros;
  float* result;  // of this row
  int64_t row;

  // kCount columns from `column` on, the windows of all inside the base.
  template <int64_t kCount, class C>
  HWY_INLINE void Inside(const C& channels, int64_t c, int64_t column) const {
    typename C::V sums[kCount];
    for (auto& sum : sums) sum = hn::Zero(channels.d);
    const ConvDimension &rows = conv.rows, &columns = conv.columns;
    const float* tap = window + c;
    for (int64_t p = 0; p < rows.window; ++p) {
      const int64_t y = rows.At(row, p);
      const bool is_inside = rows.IsInside(y);
      const int64_t step =
          is_inside ? columns.stride * conv.channels : int64_t{0};
      const int64_t next =
          is_inside ? columns.window_dilation * conv.channels : int64_t{0};
      const float* x = is_inside ? At(y, columns.At(column, 0)) : zeros;
      x += c;
      for (int64_t q = 0; q < columns.window; ++q) {
        const auto k = channels.Load(tap);
        for (int64_t j = 0; j < kCount; ++j) {
          sums[j] = AddProduct<kFused>(channels.Load(x + j * step), k, sums[j]);
        }
        x += next;
        tap += conv.channels;
      }
    }
    for (int64_t j = 0; j < kCount; ++j) {
      channels.Store(sums[j], result + (column + j) * conv.channels + c);
    }
  }

  // Any one column.
  template <class C>
  HWY_INLINE void Anywhere(const C& channels, int64_t c, int64_t column) const {
    auto sum = hn::Zero(channels.d);
    const ConvDimension &rows = conv.rows, &columns = conv.columns;
    const float* tap = window + c;
    for (int64_t p = 0; p < rows.window; ++p) {
      const int64_t y = rows.At(row, p);
      const bool is_row_inside = rows.IsInside(y);
      for (int64_t q = 0; q < columns.window; ++q, tap += conv.channels) {
        const int64_t x = columns.At(column, q);
        const bool is_inside = is_row_inside && columns.IsInside(x);
        const float* from = is_inside ? At(y, x) : zeros;
        sum = AddProduct<kFused>(channels.Load(from + c), channels.Load(tap),
                                 sum);
      }
    }
    channels.Store(sum, result + column * conv.channels + c);
  }

  const float* At(int64_t y, int64_t x) const {
    return base + (y * conv.columns.base + x) * conv.channels;
  }
};

template <bool kFused>
void ConvRowsAs(const DepthwiseConv& conv, const float* base,
                const float* window, const float* zeros, float* result,
                int64_t begin, int64_t end) {
  const int64_t base_size = conv.rows.base * conv.columns.base * conv.channels;
  const int64_t columns = conv.columns.result;
  const Interior interior(conv.columns);
  for (int64_t i = begin; i < end; ++i) {
    const RowOfResult<kFused> row{
        conv,  base + i / conv.rows.result * base_size, window,
        zeros, result + i * columns * conv.channels,    i % conv.rows.result};
    ForBlocks<float>(conv.channels,
                     [&](const auto& channels, int64_t c) HWY_ATTR {
                       int64_t j = 0;
                       for (; j < interior.begin; ++j)
                         row.Anywhere(channels, c, j);
                       for (; j + kColumns <= interior.end; j += kColumns) {
                         row.template Inside<kColumns>(channels, c, j);
                       }
                       for (; j < interior.end; ++j)
                         row.template Inside<1>(channels, c, j);
                       for (; j < columns; ++j) row.Anywhere(channels, c, j);
                     });
  }
}

void ConvRows(const DepthwiseConv& conv, const float* base, const float* window,
              const float* zeros, bool is_fused, float* result, int64_t begin,
              int64_t end) {
  is_fused ? ConvRowsAs<true>(conv, base, window, zeros, result, begin, end)
           : ConvRowsAs<false>(conv, base, window, zeros, result, begin, end);
}

}  // namespace HWY_NAMESPACE
}  // namespace xla_ffi_accelerate::conv_general_dilated
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace xla_ffi_accelerate::conv_general_dilated {
namespace {

namespace ffi = ::xla::ffi;

// Reading an element and adding its product with that of a window takes as long
// as reading this many bytes from memory.
constexpr int64_t kBytesPerProduct = 2, kMaxProducts = 1024;

// The work of one row of the result, in bytes, for splitting it over threads.
int64_t BytesOfRow(const DepthwiseConv& conv) {
  constexpr int64_t kSize = 2 * sizeof(float);
  return conv.columns.result * conv.channels *
         (kSize + kBytesPerProduct * std::min(conv.Taps(), kMaxProducts));
}

DepthwiseConv ConvOf(const ConvCall& call) {
  const Dimensions base_dims = call.get<base>().dims(),
                   window_dims = call.get<window>().dims(),
                   out_dims = call.get<out>().dims();
  const auto dimension = [&](size_t i) -> ConvDimension {
    return {base_dims[1 + i],       window_dims[i],
            out_dims[1 + i],        call.get<strides>()[i],
            call.get<padding>()[i], call.get<window_dilation>()[i]};
  };
  return {base_dims[0], base_dims[3], dimension(0), dimension(1)};
}

ffi::Error RunConv(const ConvCall& call, const Executor& executor) {
  if (call.get<out>().count() == 0) return {};
  const DepthwiseConv conv = ConvOf(call);
  const HostScratch<float> zeros(conv.channels);
  if (!zeros.status()) {
    return ScratchExhausted(call.operation(), "for a convolution",
                            zeros.status(), "convolve fewer channels");
  }
  std::fill_n(zeros.get(), conv.channels, 0.0f);
  HWY_EXPORT(ConvRows);
  const auto run = HWY_DYNAMIC_POINTER(ConvRows);
  const bool fuses = call.get<is_fused>() != 0;
  ParallelFor(executor, conv.batch * conv.rows.result, BytesOfRow(conv),
              [&](int64_t begin, int64_t end) noexcept {
                run(conv, call.get<base>().as<float>(),
                    call.get<window>().as<float>(), zeros.get(), fuses,
                    call.get<out>().as<float>(), begin, end);
              });
  return {};
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(XlaFfiAccelerateConvGeneralDilatedCpu,
                              Checked<RunConv>, BindCall<RunConv>());
XLA_FFI_KIT_DEFINE_SIGNATURE(XlaFfiAccelerateConvGeneralDilatedCpu, ConvCall);

}  // namespace xla_ffi_accelerate::conv_general_dilated

#endif  // HWY_ONCE
