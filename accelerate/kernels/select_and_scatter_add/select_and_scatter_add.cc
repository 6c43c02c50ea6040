#include "accelerate/kernels/select_and_scatter_add/select_and_scatter_add.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "xla_ffi/core/handler.h"
#include "xla_ffi/core/lines.h"
#include "xla_ffi/core/simd_targets.h"

// Compiles the rest of this file once per instruction set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE \
  "accelerate/kernels/select_and_scatter_add/select_and_scatter_add.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// Must come after foreach_target.h.
#include "accelerate/core/simd_blocks-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace xla_ffi_accelerate::select_and_scatter_add {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using xla_ffi_accelerate::HWY_NAMESPACE::ForBlocks;

// A window, or a part of one: window elements [begin, end).
struct Part {
  int64_t begin, end;
};

// The part of the window at `o` that is over elements [begin, end) of the
// operand.
HWY_INLINE Part Over(const PoolDimension& p, int64_t o, int64_t begin,
                     int64_t end) {
  const int64_t first = o * p.stride - p.padding;
  return {std::clamp<int64_t>(begin - first, 0, p.window),
          std::clamp<int64_t>(end - first, 0, p.window)};
}

// One window of an image, as lanes or one by one.
//
// However many elements of a window are outside one after the other, the first
// alone can change what is selected: it replaces a NaN. The steps are therefore
// those inside, and one wherever the window leaves the image.
template <typename T, bool kIsMin>
struct Window {
  const Pool& pool;
  const T* operand;    // below the window's first element, were it inside
  T* result;           // the same
  Part rows, columns;  // what is inside
  Part added_rows;     // what of that may be added to

  int64_t Offset(int64_t p, int64_t q) const {
    return (p * pool.columns.size + q) * pool.inner;
  }
  // Number of an element of the window, in row-major order.
  int64_t Number(int64_t p, int64_t q) const {
    return p * pool.columns.window + q;
  }
  static T Outside() {
    constexpr T kInfinity = std::numeric_limits<T>::infinity();
    return kIsMin ? kInfinity : -kInfinity;
  }
  // The best before the first element that is inside. Any element replaces NaN.
  T Initial() const {
    return rows.begin > 0 || columns.begin > 0
               ? Outside()
               : std::numeric_limits<T>::quiet_NaN();
  }
  // Whether elements outside follow those of row p that are inside.
  bool LeavesAfter(int64_t p) const {
    return columns.end < pool.columns.window ||
           (p + 1 < pool.rows.window &&
            (columns.begin > 0 || p + 1 == rows.end));
  }

  // Elements [i, ...) of the inner axis; `source` is the first of them.
  template <class B>
  HWY_INLINE void Run(const B& block, int64_t i, const T* source) const {
    const hn::RebindToSigned<decltype(block.d)> di;
    const auto number = [&](int64_t p, int64_t q) HWY_ATTR {
      return hn::Set(di, static_cast<hn::TFromD<decltype(di)>>(Number(p, q)));
    };
    const auto outside = hn::Set(di, -1);
    auto best = hn::Set(block.d, Initial());
    auto selected = outside;
    const auto step = [&](auto next, auto at) HWY_ATTR {
      const auto stays = kIsMin ? hn::Le(best, next) : hn::Ge(best, next);
      best = hn::IfThenElse(stays, best, next);
      selected = hn::IfThenElse(hn::RebindMask(di, stays), selected, at);
    };
    for (int64_t p = rows.begin; p < rows.end; ++p) {
      for (int64_t q = columns.begin; q < columns.end; ++q) {
        step(block.Load(operand + Offset(p, q) + i), number(p, q));
      }
      if (LeavesAfter(p)) step(hn::Set(block.d, Outside()), outside);
    }
    const auto s = block.Load(source);
    for (int64_t p = added_rows.begin; p < added_rows.end; ++p) {
      for (int64_t q = columns.begin; q < columns.end; ++q) {
        const auto is_here =
            hn::RebindMask(block.d, hn::Eq(selected, number(p, q)));
        T* const to = result + Offset(p, q) + i;
        const auto sum = block.Load(to);
        block.Store(hn::IfThenElse(is_here, hn::Add(sum, s), sum), to);
      }
    }
  }

  // Element i of the inner axis.
  HWY_INLINE void RunOne(int64_t i, T source) const {
    T best = Initial();
    int64_t best_p = -1, best_q = -1;
    const auto step = [&](T next, int64_t p, int64_t q) HWY_ATTR {
      const bool stays = kIsMin ? best <= next : best >= next;
      best = stays ? best : next;
      best_p = stays ? best_p : p;
      best_q = stays ? best_q : q;
    };
    for (int64_t p = rows.begin; p < rows.end; ++p) {
      for (int64_t q = columns.begin; q < columns.end; ++q) {
        step(operand[Offset(p, q) + i], p, q);
      }
      if (LeavesAfter(p)) step(Outside(), -1, -1);
    }
    if (best_p >= added_rows.begin && best_p < added_rows.end) {
      result[Offset(best_p, best_q) + i] += source;
    }
  }
};

// Rows [begin, end) of one image of the result.
template <bool kIsMin, typename T>
void PoolRows(const Pool& pool, const T* operand, const T* source, T* result,
              int64_t begin, int64_t end) {
  const PoolDimension &rows = pool.rows, &columns = pool.columns;
  const int64_t row_size = columns.size * pool.inner;
  std::fill(result + begin * row_size, result + end * row_size, T(0));
  // Pooled rows whose windows are over one of them.
  const int64_t first = begin + rows.padding - (rows.window - 1);
  const int64_t y_begin =
      first <= 0 ? 0 : (first + rows.stride - 1) / rows.stride;
  const int64_t y_end =
      std::min((end - 1 + rows.padding) / rows.stride + 1, rows.pooled);
  const int64_t x_end =
      std::min((columns.size - 1 + columns.padding) / columns.stride + 1,
               columns.pooled);
  // Fewer elements than this are faster one by one.
  constexpr int64_t kMinLanes = 3;
  for (int64_t y = y_begin; y < y_end; ++y) {
    const int64_t at_row = (y * rows.stride - rows.padding) * row_size;
    for (int64_t x = 0; x < x_end; ++x) {
      const int64_t at =
          at_row + (x * columns.stride - columns.padding) * pool.inner;
      const Window<T, kIsMin> window{pool,
                                     operand + at,
                                     result + at,
                                     Over(rows, y, 0, rows.size),
                                     Over(columns, x, 0, columns.size),
                                     Over(rows, y, begin, end)};
      const T* const s = source + (y * columns.pooled + x) * pool.inner;
      if (pool.inner < kMinLanes) {
        for (int64_t i = 0; i < pool.inner; ++i) window.RunOne(i, s[i]);
        continue;
      }
      ForBlocks<T>(pool.inner, [&](const auto& block, int64_t i)
                                   HWY_ATTR { window.Run(block, i, s + i); });
    }
  }
}

// Rows [begin, end) of all images.
template <typename T>
void PoolImages(const Pool& pool, const T* operand, const T* source, T* result,
                int64_t begin, int64_t end) {
  const int64_t rows = pool.rows.size;
  const int64_t size = rows * pool.columns.size * pool.inner;
  const int64_t source_size =
      pool.rows.pooled * pool.columns.pooled * pool.inner;
  while (begin < end) {
    const int64_t image = begin / rows, row = begin % rows;
    const int64_t row_end = std::min(row + end - begin, rows);
    const auto run = pool.is_min ? PoolRows<true, T> : PoolRows<false, T>;
    run(pool, operand + image * size, source + image * source_size,
        result + image * size, row, row_end);
    begin += row_end - row;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace xla_ffi_accelerate::select_and_scatter_add
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace xla_ffi_accelerate::select_and_scatter_add {
namespace {

namespace ffi = ::xla::ffi;

Pool PoolOf(const PoolCall& call) {
  const Dimensions from = call.get<operand>().dims(),
                   to = call.get<source>().dims();
  const auto dimension = [&](size_t i) -> PoolDimension {
    return {from[1 + i], to[1 + i], call.get<window>()[i],
            call.get<strides>()[i], call.get<padding>()[i]};
  };
  return {from[0], from[3], dimension(0), dimension(1),
          call.get<is_min>() != 0};
}

ffi::Error Run(const PoolCall& call, const Executor& executor) {
  if (call.get<result>().count() == 0) return {};
  const Pool pool = PoolOf(call);
  return call.Dispatch<operand>([&](auto tag) {
    using T = typename decltype(tag)::type;
    HWY_EXPORT_T(Table, PoolImages<T>);
    const auto run = HWY_DYNAMIC_POINTER_T(Table);
    const LineWork work = {pool.outer * pool.rows.size,
                           pool.columns.size * pool.inner, /*element_ns=*/0.6};
    ForEachLine(executor, work.lines, PlanLines(executor, work),
                [&](int64_t begin, int64_t end) noexcept {
                  run(pool, call.get<operand>().as(tag),
                      call.get<source>().as(tag), call.get<result>().as(tag),
                      begin, end);
                });
    return ffi::Error();
  });
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(XlaFfiAccelerateSelectAndScatterAddCpu,
                              Checked<Run>, BindCall<Run>());
XLA_FFI_KIT_DEFINE_SIGNATURE(XlaFfiAccelerateSelectAndScatterAddCpu, PoolCall);

}  // namespace xla_ffi_accelerate::select_and_scatter_add

#endif  // HWY_ONCE
