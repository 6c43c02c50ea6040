#include "accelerate/kernels/conv_general_dilated/conv_general_dilated.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

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
    if (p.base_dilation != 1 || last >= p.base) return;
    const int64_t first = std::max<int64_t>(p.padding, 0) + p.stride - 1;
    begin = std::min(first / p.stride, p.result);
    end = std::clamp((p.base - 1 - last) / p.stride + 1, begin, p.result);
  }
  int64_t begin = 0, end = 0;
};

// One row of the result.
template <typename T, bool kFused>
struct RowOfResult {
  const DepthwiseConv& conv;
  const T* base;  // of this batch element
  const T* window;
  const T* zeros;
  T* result;  // of this row
  int64_t row;

  // kCount columns from `column` on, the windows of all inside the base.
  template <int64_t kCount, class C>
  HWY_INLINE void Inside(const C& channels, int64_t c, int64_t column) const {
    typename C::V sums[kCount];
    for (auto& sum : sums) sum = hn::Zero(channels.d);
    const ConvDimension &rows = conv.rows, &columns = conv.columns;
    const T* tap = window + c;
    for (int64_t p = 0; p < rows.window; ++p) {
      const int64_t y = rows.At(row, p);
      const bool is_inside = rows.IsInside(y);
      if (!is_inside && rows.base_dilation != 1) {
        tap += columns.window * conv.channels;
        continue;
      }
      const int64_t step =
          is_inside ? columns.stride * conv.channels : int64_t{0};
      const int64_t next =
          is_inside ? columns.window_dilation * conv.channels : int64_t{0};
      const T* x = is_inside ? At(y, columns.At(column, 0)) : zeros;
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
    const bool is_dilated = rows.base_dilation != 1 ||  //
                            columns.base_dilation != 1;
    const T* tap = window + c;
    for (int64_t p = 0; p < rows.window; ++p) {
      const int64_t y = rows.At(row, p);
      const bool is_row_inside = rows.IsInside(y);
      for (int64_t q = 0; q < columns.window; ++q, tap += conv.channels) {
        const int64_t x = columns.At(column, q);
        const bool is_inside = is_row_inside && columns.IsInside(x);
        if (!is_inside && is_dilated) continue;
        const T* from = is_inside ? At(y, x) : zeros;
        sum = AddProduct<kFused>(channels.Load(from + c), channels.Load(tap),
                                 sum);
      }
    }
    channels.Store(sum, result + column * conv.channels + c);
  }

  const T* At(int64_t y, int64_t x) const {
    const ConvDimension &rows = conv.rows, &columns = conv.columns;
    return base +
           (y / rows.base_dilation * columns.base + x / columns.base_dilation) *
               conv.channels;
  }
};

template <bool kFused, typename T>
void ConvRowsAs(const DepthwiseConv& conv, const T* base, const T* window,
                const T* zeros, T* result, int64_t begin, int64_t end) {
  const int64_t base_size = conv.rows.base * conv.columns.base * conv.channels;
  const int64_t columns = conv.columns.result;
  const Interior interior(conv.columns);
  for (int64_t i = begin; i < end; ++i) {
    const RowOfResult<T, kFused> row{
        conv,  base + i / conv.rows.result * base_size, window,
        zeros, result + i * columns * conv.channels,    i % conv.rows.result};
    ForBlocks<T>(conv.channels, [&](const auto& channels, int64_t c) HWY_ATTR {
      int64_t j = 0;
      for (; j < interior.begin; ++j) row.Anywhere(channels, c, j);
      for (; j + kColumns <= interior.end; j += kColumns) {
        row.template Inside<kColumns>(channels, c, j);
      }
      for (; j < interior.end; ++j) row.template Inside<1>(channels, c, j);
      for (; j < columns; ++j) row.Anywhere(channels, c, j);
    });
  }
}

template <typename T>
void ConvRows(const DepthwiseConv& conv, const T* base, const T* window,
              const T* zeros, bool is_fused, T* result, int64_t begin,
              int64_t end) {
  is_fused ? ConvRowsAs<true>(conv, base, window, zeros, result, begin, end)
           : ConvRowsAs<false>(conv, base, window, zeros, result, begin, end);
}

// A row of the window, which is the cotangent of the convolution.
template <typename T>
struct RowOfWindow {
  const DepthwiseConv& conv;
  const T* base;    // the row of it that this one is over
  const T* window;  // this row

  // The sum of products for column `o` of the result, of one vector.
  template <class C>
  HWY_INLINE typename C::V Sum(const C& channels, int64_t c, int64_t o) const {
    const ConvDimension& p = conv.columns;
    // Several chains of sums, since each sum takes cycles.
    typename C::V sums[kColumns];
    for (auto& sum : sums) sum = hn::Zero(channels.d);
    const auto add = [&](int64_t chain, int64_t j) HWY_ATTR {
      const T* x = base + p.At(o, j) / p.base_dilation * conv.channels + c;
      const T* g = window + j * conv.channels + c;
      sums[chain] = hn::MulAdd(channels.Load(x), channels.Load(g), sums[chain]);
    };
    if (p.base_dilation != 1) {
      for (int64_t j = 0; j < p.window; ++j) {
        if (p.IsInside(p.At(o, j))) add(0, j);
      }
    } else {
      const int64_t first = p.At(o, 0), step = p.window_dilation;
      const int64_t begin =
          std::min(first >= 0 ? 0 : (-first + step - 1) / step, p.window);
      const int64_t end =
          first >= p.base
              ? begin
              : std::clamp((p.base - 1 - first) / step + 1, begin, p.window);
      int64_t j = begin;
      for (; j + kColumns <= end; j += kColumns) {
        for (int64_t chain = 0; chain < kColumns; ++chain) {
          add(chain, j + chain);
        }
      }
      for (; j < end; ++j) add(j % kColumns, j);
    }
    return hn::Add(hn::Add(sums[0], sums[1]), hn::Add(sums[2], sums[3]));
  }
};

// Sums rows [begin, end) of the window's batch * rows into `result`.
template <typename T>
void GradientOfRows(const DepthwiseConv& conv, const T* base, const T* window,
                    T* result, int64_t begin, int64_t end) {
  const ConvDimension &rows = conv.rows, &columns = conv.columns;
  std::fill_n(result, rows.result * columns.result * conv.channels, T(0));
  for (int64_t i = begin; i < end; ++i) {
    const int64_t b = i / rows.window;
    for (int64_t p = 0; p < rows.result; ++p) {
      const int64_t y = rows.At(p, i % rows.window);
      if (!rows.IsInside(y)) continue;
      const int64_t base_row = b * rows.base + y / rows.base_dilation;
      const RowOfWindow<T> row{conv,
                               base + base_row * columns.base * conv.channels,
                               window + i * columns.window * conv.channels};
      ForBlocks<T>(
          conv.channels, [&](const auto& channels, int64_t c) HWY_ATTR {
            T* to = result + p * columns.result * conv.channels + c;
            for (int64_t q = 0; q < columns.result; ++q, to += conv.channels) {
              channels.Store(
                  hn::Add(channels.Load(to), row.Sum(channels, c, q)), to);
            }
          });
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace xla_ffi_accelerate::conv_general_dilated
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace xla_ffi_accelerate::conv_general_dilated {
namespace {

namespace ffi = ::xla::ffi;

// Into how many parts the sums of a gradient are divided, each with a result
// of its own. Not by the number of threads, on which no sum shall depend.
constexpr int64_t kGradientParts = 16;

// Reading an element and adding its product with that of a window takes as long
// as reading this many bytes from memory.
constexpr int64_t kBytesPerProduct = 2, kMaxProducts = 1024;

// The work of one row of `columns` positions, in bytes, for splitting it over
// threads.
int64_t Bytes(const DepthwiseConv& conv, int64_t columns, int64_t size) {
  return columns * conv.channels *
         (2 * size + kBytesPerProduct * std::min(conv.Taps(), kMaxProducts));
}

template <typename C>
DepthwiseConv ConvOf(const C& call, Dimensions window_dims,
                     Dimensions out_dims) {
  const Dimensions base_dims = call.template get<base>().dims();
  const auto dimension = [&](size_t i) -> ConvDimension {
    return {base_dims[1 + i],
            window_dims[window_dims.size() - 3 + i],
            out_dims[out_dims.size() - 3 + i],
            call.template get<strides>()[i],
            call.template get<padding>()[i],
            call.template get<base_dilation>()[i],
            call.template get<window_dilation>()[i]};
  };
  return {base_dims[0], base_dims[3], dimension(0), dimension(1)};
}

ffi::Error NoScratch(std::string_view operation, const ScratchStatus& status) {
  return ScratchExhausted(operation, "for a convolution", status,
                          "convolve fewer channels");
}

ffi::Error RunConv(const ConvCall& call, const Executor& executor) {
  if (call.get<out>().count() == 0) return {};
  const DepthwiseConv conv =
      ConvOf(call, call.get<window>().dims(), call.get<out>().dims());
  const bool fuses = call.get<is_fused>() != 0;
  return call.Dispatch<base>([&](auto tag) -> ffi::Error {
    using T = typename decltype(tag)::type;
    const HostScratch<T> zeros(conv.channels);
    if (!zeros.status()) return NoScratch(call.operation(), zeros.status());
    std::fill_n(zeros.get(), conv.channels, T(0));
    HWY_EXPORT_T(Table, ConvRows<T>);
    const auto run = HWY_DYNAMIC_POINTER_T(Table);
    ParallelFor(executor, conv.batch * conv.rows.result,
                Bytes(conv, conv.columns.result, sizeof(T)),
                [&](int64_t begin, int64_t end) noexcept {
                  run(conv, call.get<base>().as(tag),
                      call.get<window>().as(tag), zeros.get(), fuses,
                      call.get<out>().as(tag), begin, end);
                });
    return {};
  });
}

ffi::Error RunGradient(const GradientCall& call, const Executor& executor) {
  if (call.get<gradient>().count() == 0) return {};
  DepthwiseConv conv =
      ConvOf(call, call.get<windows>().dims(), call.get<gradient>().dims());
  const bool has_sums =
      call.get<base>().count() > 0 && call.get<windows>().count() > 0;
  if (!has_sums) conv.batch = 0;
  const int64_t rows = conv.batch * conv.rows.window;
  const int64_t parts = std::min(kGradientParts, rows);
  const int64_t size = call.get<gradient>().count();
  return call.Dispatch<base>([&](auto tag) -> ffi::Error {
    using T = typename decltype(tag)::type;
    const HostScratch<T> sums(parts * size);
    if (!sums.status()) return NoScratch(call.operation(), sums.status());
    HWY_EXPORT_T(Table, GradientOfRows<T>);
    const auto run = HWY_DYNAMIC_POINTER_T(Table);
    const int64_t row_bytes = Bytes(conv, conv.columns.window, sizeof(T));
    ParallelFor(executor, parts, rows / std::max<int64_t>(parts, 1) * row_bytes,
                [&](int64_t begin, int64_t end) noexcept {
                  for (int64_t part = begin; part < end; ++part) {
                    run(conv, call.get<base>().as(tag),
                        call.get<windows>().as(tag), sums.get() + part * size,
                        PartBegin(rows, parts, part),
                        PartBegin(rows, parts, part + 1));
                  }
                });
    T* const result = call.get<gradient>().as(tag);
    std::fill_n(result, size, T(0));
    for (int64_t part = 0; part < parts; ++part) {
      for (int64_t i = 0; i < size; ++i) {
        result[i] += sums.get()[part * size + i];
      }
    }
    return {};
  });
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(XlaFfiAccelerateConvGeneralDilatedCpu,
                              Checked<RunConv>, BindCall<RunConv>());
XLA_FFI_KIT_DEFINE_SIGNATURE(XlaFfiAccelerateConvGeneralDilatedCpu, ConvCall);

XLA_FFI_DEFINE_HANDLER_SYMBOL(
    XlaFfiAccelerateConvGeneralDilatedKernelGradientCpu, Checked<RunGradient>,
    BindCall<RunGradient>());
XLA_FFI_KIT_DEFINE_SIGNATURE(
    XlaFfiAccelerateConvGeneralDilatedKernelGradientCpu, GradientCall);

}  // namespace xla_ffi_accelerate::conv_general_dilated

#endif  // HWY_ONCE
