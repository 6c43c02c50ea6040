#include "accelerate/kernels/linalg/linalg.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <string>
#include <utility>

#include "xla_ffi/core/batch_shape.h"
#include "xla_ffi/core/checks.h"
#include "xla_ffi/core/executor.h"
#include "xla_ffi/core/handler.h"
#include "xla_ffi/core/parallel_for.h"
#include "xla_ffi/core/simd_targets.h"

// Compiles the rest of this file once per instruction set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "accelerate/kernels/linalg/linalg.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// Must come after foreach_target.h.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace xla_ffi_accelerate::linalg {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// A 4 x 4 block of f32, or a 2 x 2 block of f64, in which from[r * step + c]
// becomes to[c * to_step + r].
HWY_INLINE void TransposeBlock(const float* from, int64_t step, float* to,
                               int64_t to_step) {
  const hn::FixedTag<float, 4> d;
  const auto row0 = hn::LoadU(d, from), row1 = hn::LoadU(d, from + step);
  const auto row2 = hn::LoadU(d, from + 2 * step);
  const auto row3 = hn::LoadU(d, from + 3 * step);
  const auto low02 = hn::InterleaveLower(d, row0, row2);
  const auto low13 = hn::InterleaveLower(d, row1, row3);
  const auto high02 = hn::InterleaveUpper(d, row0, row2);
  const auto high13 = hn::InterleaveUpper(d, row1, row3);
  hn::StoreU(hn::InterleaveLower(d, low02, low13), d, to);
  hn::StoreU(hn::InterleaveUpper(d, low02, low13), d, to + to_step);
  hn::StoreU(hn::InterleaveLower(d, high02, high13), d, to + 2 * to_step);
  hn::StoreU(hn::InterleaveUpper(d, high02, high13), d, to + 3 * to_step);
}
HWY_INLINE void TransposeBlock(const double* from, int64_t step, double* to,
                               int64_t to_step) {
  const hn::FixedTag<double, 2> d;
  const auto row0 = hn::LoadU(d, from), row1 = hn::LoadU(d, from + step);
  hn::StoreU(hn::InterleaveLower(d, row0, row1), d, to);
  hn::StoreU(hn::InterleaveUpper(d, row0, row1), d, to + to_step);
}

// from[r * step + c], of `rows` and `columns`, becomes to[c * to_step + r]. One
// function for all that call it: inlined, it takes a fiftieth of the library.
template <typename T>
HWY_NOINLINE void Transpose(const T* from, int64_t rows, int64_t columns,
                            int64_t step, T* to, int64_t to_step) {
  constexpr int64_t kBlock = 16 / sizeof(T);
  int64_t r = 0;
  for (; r + kBlock <= rows; r += kBlock) {
    int64_t c = 0;
    for (; c + kBlock <= columns; c += kBlock) {
      TransposeBlock(from + r * step + c, step, to + c * to_step + r, to_step);
    }
    for (; c < columns; ++c) {
      for (int64_t i = r; i < r + kBlock; ++i) {
        to[c * to_step + i] = from[i * step + c];
      }
    }
  }
  for (; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) {
      to[c * to_step + r] = from[r * step + c];
    }
  }
}

// A group of matrices, one for each lane: vector e holds element e of all of
// them.
template <typename T>
class Lanes {
 public:
  static constexpr hn::ScalableTag<T> d{};
  using V = hn::Vec<hn::ScalableTag<T>>;

  static int64_t Count() { return static_cast<int64_t>(hn::Lanes(d)); }

  HWY_INLINE V Get(int64_t e) const { return hn::Load(d, data_ + e * Count()); }
  HWY_INLINE void Set(int64_t e, V v) { hn::Store(v, d, data_ + e * Count()); }

  // Element e of matrix i is x[i * size + e], and becomes element first + e of
  // lane i; lanes from `count` on are 0.
  void Read(const T* x, int64_t size, int64_t elements, int64_t count,
            int64_t first = 0) {
    T* const to = data_ + first * Count();
    if (count < Count()) std::fill_n(to, elements * Count(), T(0));
    Transpose(x, count, elements, size, to, Count());
  }
  void Write(T* x, int64_t size, int64_t elements, int64_t count,
             int64_t first = 0) const {
    const T* const from = data_ + first * Count();
    Transpose(from, elements, count, Count(), x, size);
  }

 private:
  HWY_ALIGN T
      data_[kMaxMatrix * kMaxMatrix * hn::MaxLanes(hn::ScalableTag<T>())];
};

// The step of each lane's row swap: rows k and pivot[lane].
template <typename T, class VI>
HWY_INLINE void SwapRows(Lanes<T>& a, int64_t n, int64_t k, VI pivot) {
  const hn::RebindToSigned<hn::ScalableTag<T>> di;
  for (int64_t i = k + 1; i < n; ++i) {
    const auto is_pivot = hn::RebindMask(
        a.d,
        hn::Eq(pivot, hn::Set(di, static_cast<hn::TFromD<decltype(di)>>(i))));
    if (hn::AllFalse(a.d, is_pivot)) continue;
    for (int64_t j = 0; j < n; ++j) {
      const auto upper = a.Get(k * n + j), lower = a.Get(i * n + j);
      a.Set(k * n + j, hn::IfThenElse(is_pivot, lower, upper));
      a.Set(i * n + j, hn::IfThenElse(is_pivot, upper, lower));
    }
  }
}

// Column k of L, and what its row of U takes from the rows below.
template <typename T>
HWY_INLINE void Eliminate(Lanes<T>& a, int64_t n, int64_t k) {
  const auto pivot = a.Get(k * n + k);
  const auto is_zero = hn::Eq(pivot, hn::Zero(a.d));
  for (int64_t i = k + 1; i < n; ++i) {
    const auto old = a.Get(i * n + k);
    const auto l = hn::IfThenElse(is_zero, old, hn::Div(old, pivot));
    a.Set(i * n + k, l);
    for (int64_t j = k + 1; j < n; ++j) {
      a.Set(i * n + j, hn::NegMulAdd(l, a.Get(k * n + j), a.Get(i * n + j)));
    }
  }
}

template <typename T>
void LuBlocks(int64_t n, const T* x, T* lu, int32_t* pivots,
              int32_t* permutation, int64_t begin, int64_t end) {
  Lanes<T> a;
  const hn::RebindToSigned<hn::ScalableTag<T>> di;
  using Index = hn::TFromD<decltype(di)>;
  HWY_ALIGN Index rows[hn::MaxLanes(hn::ScalableTag<T>())];
  for (int64_t first = begin; first < end; first += a.Count()) {
    const int64_t count = std::min(a.Count(), end - first);
    a.Read(x + first * n * n, n * n, n * n, count);
    for (int64_t k = 0; k < n; ++k) {
      auto largest = hn::Abs(a.Get(k * n + k));
      auto pivot = hn::Set(di, static_cast<Index>(k));
      for (int64_t i = k + 1; i < n; ++i) {
        const auto magnitude = hn::Abs(a.Get(i * n + k));
        const auto is_larger = hn::Gt(magnitude, largest);
        largest = hn::IfThenElse(is_larger, magnitude, largest);
        pivot = hn::IfThenElse(hn::RebindMask(di, is_larger),
                               hn::Set(di, static_cast<Index>(i)), pivot);
      }
      SwapRows(a, n, k, pivot);
      Eliminate(a, n, k);
      hn::Store(pivot, di, rows);
      for (int64_t i = 0; i < count; ++i) {
        pivots[(first + i) * n + k] = static_cast<int32_t>(rows[i]);
      }
    }
    a.Write(lu + first * n * n, n * n, n * n, count);
    for (int64_t i = first; i < first + count; ++i) {
      int32_t* const order = permutation + i * n;
      std::iota(order, order + n, 0);
      for (int64_t k = 0; k < n; ++k) {
        std::swap(order[k], order[pivots[i * n + k]]);
      }
    }
  }
}

template <typename T>
void CholeskyBlocks(int64_t n, const T* x, T* result, int64_t begin,
                    int64_t end) {
  Lanes<T> a;
  const auto zero = hn::Zero(a.d);
  for (int64_t first = begin; first < end; first += a.Count()) {
    const int64_t count = std::min(a.Count(), end - first);
    a.Read(x + first * n * n, n * n, n * n, count);
    auto is_definite = hn::Eq(zero, zero);
    for (int64_t j = 0; j < n; ++j) {
      auto root = zero;
      for (int64_t i = j; i < n; ++i) {
        auto sum = a.Get(i * n + j);
        for (int64_t k = 0; k < j; ++k) {
          sum = hn::NegMulAdd(a.Get(i * n + k), a.Get(j * n + k), sum);
        }
        if (i == j) {
          // A NaN stays where it is, as with LAPACK.
          is_definite = hn::AndNot(hn::Le(sum, zero), is_definite);
          root = hn::Sqrt(sum);
          a.Set(j * n + j, root);
        } else {
          a.Set(i * n + j, hn::Div(sum, root));
        }
      }
      for (int64_t i = 0; i < j; ++i) a.Set(i * n + j, zero);
    }
    if (!hn::AllTrue(a.d, is_definite)) {
      const auto nan = hn::Set(a.d, std::numeric_limits<T>::quiet_NaN());
      for (int64_t e = 0; e < n * n; ++e) {
        a.Set(e, hn::IfThenElse(is_definite, a.Get(e), nan));
      }
    }
    a.Write(result + first * n * n, n * n, n * n, count);
  }
}

// Solves for one vector in v, whose element i is element at + i * step.
template <typename T>
HWY_INLINE void SolveVector(const TriangularSolve& p, const Lanes<T>& a,
                            Lanes<T>& v, int64_t at, int64_t step) {
  const int64_t n = p.n;
  // x a = b is a^T x^T = b^T.
  const bool is_transposed = p.is_transposed == p.is_left;
  const bool is_lower = p.is_lower != is_transposed;
  const int64_t row = is_transposed ? 1 : n, column = is_transposed ? n : 1;
  for (int64_t done = 0; done < n; ++done) {
    const int64_t i = is_lower ? done : n - 1 - done;
    auto sum = v.Get(at + i * step);
    for (int64_t k = is_lower ? 0 : i + 1; k < (is_lower ? i : n); ++k) {
      sum =
          hn::NegMulAdd(a.Get(i * row + k * column), v.Get(at + k * step), sum);
    }
    if (!p.is_diagonal_one) sum = hn::Div(sum, a.Get(i * (n + 1)));
    v.Set(at + i * step, sum);
  }
}

constexpr int64_t kVectorElements = 64;

template <typename T>
void SolveBlocks(const TriangularSolve& p, const T* a_data, const T* b, T* x,
                 int64_t begin, int64_t end) {
  const int64_t n = p.n, size = n * p.columns;
  // So many vectors at a time stay in the first-level cache, with the matrices.
  const int64_t most = std::max<int64_t>(kVectorElements / n, 1);
  Lanes<T> a, v;
  for (int64_t first = begin; first < end; first += a.Count()) {
    const int64_t count = std::min(a.Count(), end - first);
    a.Read(a_data + first * n * n, n * n, n * n, count);
    for (int64_t c = 0; c < p.columns; c += most) {
      const int64_t width = std::min(most, p.columns - c);
      // Contiguous memory: the whole matrix, or a part of each row.
      const bool is_whole = !p.is_left || width == p.columns;
      const int64_t runs = is_whole ? 1 : n;
      const int64_t run = is_whole ? n * width : width;
      const int64_t begin_of_run = first * size + (p.is_left ? c : c * n);
      for (int64_t r = 0; r < runs; ++r) {
        v.Read(b + begin_of_run + r * p.columns, size, run, count, r * run);
      }
      for (int64_t k = 0; k < width; ++k) {
        SolveVector(p, a, v, p.is_left ? k : k * n, p.is_left ? width : 1);
      }
      for (int64_t r = 0; r < runs; ++r) {
        v.Write(x + begin_of_run + r * p.columns, size, run, count, r * run);
      }
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace xla_ffi_accelerate::linalg
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace xla_ffi_accelerate::linalg {
namespace {

namespace ffi = ::xla::ffi;

// How many matrices there are.
int64_t BatchOf(Dimensions matrices) {
  return Product(matrices.first(matrices.size() - 2));
}

// Calls run(begin, end) on parts of the batch that vectors fill.
template <typename T, typename Run>
void ForMatrices(int64_t batch, int64_t elements, const Executor& executor,
                 const Run& run) {
  constexpr int64_t kMatrices = 16;
  // To factorize a matrix takes several times as long as to read it.
  constexpr int64_t kTimes = 4;
  const int64_t bytes =
      kTimes * kMatrices * elements * static_cast<int64_t>(sizeof(T));
  ParallelFor(executor, (batch + kMatrices - 1) / kMatrices, bytes,
              [&](int64_t begin, int64_t end) noexcept {
                run(begin * kMatrices, std::min(end * kMatrices, batch));
              });
}

ffi::Error RunLu(const LuCall& call, const Executor& executor) {
  const Dimensions dims = call.get<a>().dims();
  return call.Dispatch<a>([&](auto tag) {
    using T = typename decltype(tag)::type;
    HWY_EXPORT_T(Table, LuBlocks<T>);
    const auto run = HWY_DYNAMIC_POINTER_T(Table);
    const int64_t n = dims.back();
    ForMatrices<T>(BatchOf(dims), n * n, executor,
                   [&](int64_t begin, int64_t end) {
                     run(n, call.get<a>().as(tag), call.get<lu>().as(tag),
                         call.get<pivots>().as<int32_t>(),
                         call.get<permutation>().as<int32_t>(), begin, end);
                   });
    return ffi::Error();
  });
}

ffi::Error RunCholesky(const CholeskyCall& call, const Executor& executor) {
  const Dimensions dims = call.get<a>().dims();
  return call.Dispatch<a>([&](auto tag) {
    using T = typename decltype(tag)::type;
    HWY_EXPORT_T(Table, CholeskyBlocks<T>);
    const auto run = HWY_DYNAMIC_POINTER_T(Table);
    const int64_t n = dims.back();
    ForMatrices<T>(
        BatchOf(dims), n * n, executor, [&](int64_t begin, int64_t end) {
          run(n, call.get<a>().as(tag), call.get<l>().as(tag), begin, end);
        });
    return ffi::Error();
  });
}

TriangularSolve SolveOf(const SolveCall& call) {
  const Dimensions dims = call.get<b>().dims();
  TriangularSolve solve;
  solve.batch = BatchOf(dims);
  solve.n = call.get<a>().dims().back();
  solve.is_left = call.get<is_left>() != 0;
  solve.columns = dims[dims.size() - (solve.is_left ? 1 : 2)];
  solve.is_lower = call.get<is_lower>() != 0;
  solve.is_transposed = call.get<is_transposed>() != 0;
  solve.is_diagonal_one = call.get<is_diagonal_one>() != 0;
  return solve;
}

ffi::Error RunSolve(const SolveCall& call, const Executor& executor) {
  const TriangularSolve solve = SolveOf(call);
  const Dimensions dims = call.get<b>().dims();
  if (dims[dims.size() - (solve.is_left ? 2 : 1)] != solve.n) {
    return call.Invalid<b>(std::to_string(solve.n) +
                               (solve.is_left ? " rows" : " columns") +
                               " like operand a",
                           "shape " + ShapeText(dims));
  }
  if (Product(dims) == 0) return {};
  return call.Dispatch<a>([&](auto tag) {
    using T = typename decltype(tag)::type;
    HWY_EXPORT_T(Table, SolveBlocks<T>);
    const auto run = HWY_DYNAMIC_POINTER_T(Table);
    ForMatrices<T>(solve.batch, solve.n * (solve.n + solve.columns), executor,
                   [&](int64_t begin, int64_t end) {
                     run(solve, call.get<a>().as(tag), call.get<b>().as(tag),
                         call.get<x>().as(tag), begin, end);
                   });
    return ffi::Error();
  });
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(XlaFfiAccelerateLinalgLuCpu, Checked<RunLu>,
                              BindCall<RunLu>());
XLA_FFI_KIT_DEFINE_SIGNATURE(XlaFfiAccelerateLinalgLuCpu, LuCall);

XLA_FFI_DEFINE_HANDLER_SYMBOL(XlaFfiAccelerateLinalgCholeskyCpu,
                              Checked<RunCholesky>, BindCall<RunCholesky>());
XLA_FFI_KIT_DEFINE_SIGNATURE(XlaFfiAccelerateLinalgCholeskyCpu, CholeskyCall);

XLA_FFI_DEFINE_HANDLER_SYMBOL(XlaFfiAccelerateLinalgTriangularSolveCpu,
                              Checked<RunSolve>, BindCall<RunSolve>());
XLA_FFI_KIT_DEFINE_SIGNATURE(XlaFfiAccelerateLinalgTriangularSolveCpu,
                             SolveCall);

}  // namespace xla_ffi_accelerate::linalg

#endif  // HWY_ONCE
