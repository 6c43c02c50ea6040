#include "xla_ffi/ops/linalg/linalg.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <utility>

#include "xla_ffi/core/parallel_for.h"
#include "xla_ffi/core/simd_targets.h"

// Compiles the rest of this file once per instruction set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "xla_ffi/ops/linalg/linalg.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// Must come after foreach_target.h.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace xla_ffi_kit {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// A loop that clang would make AVX-512's gathers and scatters of: they take up
// to 1.3 times as long as an element at a time, as gcc leaves it.
#undef XLA_FFI_KIT_ONE_BY_ONE
#if HWY_COMPILER_CLANG
#define XLA_FFI_KIT_ONE_BY_ONE HWY_PRAGMA(clang loop vectorize(disable))
#else
#define XLA_FFI_KIT_ONE_BY_ONE
#endif

// As many matrices as a vector has lanes: element e of all of them is vector e.
template <typename T>
class Lanes {
 public:
  static constexpr hn::ScalableTag<T> d{};
  using V = hn::Vec<hn::ScalableTag<T>>;

  static int64_t Count() { return static_cast<int64_t>(hn::Lanes(d)); }

  HWY_INLINE V Get(int64_t e) const { return hn::Load(d, data_ + e * Count()); }
  HWY_INLINE void Set(int64_t e, V v) { hn::Store(v, d, data_ + e * Count()); }

  // Element e of matrix i is x[i * size + at(e)]; lanes from `count` on are 0.
  template <class At>
  void Read(const T* x, int64_t size, int64_t elements, int64_t count,
            const At& at) {
    const int64_t lanes = Count();
    if (count < lanes) std::fill_n(data_, elements * lanes, T(0));
    for (int64_t i = 0; i < count; ++i) {
      XLA_FFI_KIT_ONE_BY_ONE
      for (int64_t e = 0; e < elements; ++e) {
        data_[e * lanes + i] = x[i * size + at(e)];
      }
    }
  }
  template <class At>
  void Write(T* x, int64_t size, int64_t elements, int64_t count,
             const At& at) const {
    const int64_t lanes = Count();
    for (int64_t i = 0; i < count; ++i) {
      XLA_FFI_KIT_ONE_BY_ONE
      for (int64_t e = 0; e < elements; ++e) {
        x[i * size + at(e)] = data_[e * lanes + i];
      }
    }
  }

 private:
  HWY_ALIGN T
      data_[kMaxMatrix * kMaxMatrix * hn::MaxLanes(hn::ScalableTag<T>())];
};

inline int64_t Same(int64_t e) { return e; }

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
    a.Read(x + first * n * n, n * n, n * n, count, Same);
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
    a.Write(lu + first * n * n, n * n, n * n, count, Same);
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
    a.Read(x + first * n * n, n * n, n * n, count, Same);
    auto is_definite = hn::Eq(zero, zero);
    for (int64_t j = 0; j < n; ++j) {
      auto root = zero;
      for (int64_t i = j; i < n; ++i) {
        auto sum = a.Get(i * n + j);
        for (int64_t k = 0; k < j; ++k) {
          sum = hn::NegMulAdd(a.Get(i * n + k), a.Get(j * n + k), sum);
        }
        if (i == j) {
          // As LAPACK: a NaN stays where it is.
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
    a.Write(result + first * n * n, n * n, n * n, count, Same);
  }
}

template <typename T>
void SolveBlocks(const TriangularSolve& p, const T* a_data, const T* b, T* x,
                 int64_t begin, int64_t end) {
  const int64_t n = p.n, columns = p.columns;
  // x a = b is a^T x^T = b^T.
  const bool is_transposed = p.is_transposed == p.is_left;
  const bool is_lower = p.is_lower != is_transposed;
  Lanes<T> a, v;
  for (int64_t first = begin; first < end; first += a.Count()) {
    const int64_t count = std::min(a.Count(), end - first);
    a.Read(a_data + first * n * n, n * n, n * n, count,
           [&](int64_t e) { return is_transposed ? e % n * n + e / n : e; });
    for (int64_t c = 0; c < columns; ++c) {
      const auto at = [&](int64_t i) {
        return p.is_left ? i * columns + c : c * n + i;
      };
      const int64_t size = n * columns;
      v.Read(b + first * size, size, n, count, at);
      for (int64_t step = 0; step < n; ++step) {
        const int64_t i = is_lower ? step : n - 1 - step;
        auto sum = v.Get(i);
        for (int64_t k = is_lower ? 0 : i + 1; k < (is_lower ? i : n); ++k) {
          sum = hn::NegMulAdd(a.Get(i * n + k), v.Get(k), sum);
        }
        if (!p.is_diagonal_one) sum = hn::Div(sum, a.Get(i * n + i));
        v.Set(i, sum);
      }
      v.Write(x + first * size, size, n, count, at);
    }
  }
}

// Rotates rows and columns p < q, by which element (p, q) of `a` gets 0, and
// the columns of v. Of `a` the upper triangle counts; it is at most 1.
template <typename T>
HWY_INLINE void Rotate(Lanes<T>& a, Lanes<T>& v, int64_t n, int64_t p,
                       int64_t q) {
  const auto one = hn::Set(a.d, T(1)), zero = hn::Zero(a.d);
  const auto pp = a.Get(p * n + p), pq = a.Get(p * n + q),
             qq = a.Get(q * n + q);
  const auto difference = hn::Sub(qq, pp), twice = hn::Add(pq, pq);
  const auto root =
      hn::Sqrt(hn::MulAdd(difference, difference, hn::Mul(twice, twice)));
  const auto below = hn::Add(hn::Abs(difference), root);
  // The tangent of the angle; of two equal ones the smaller.
  const auto tangent = hn::IfThenElse(
      hn::Eq(below, zero), zero,
      hn::Div(hn::Mul(twice, hn::CopySign(one, difference)), below));
  const auto cosine = hn::Div(one, hn::Sqrt(hn::MulAdd(tangent, tangent, one)));
  const auto sine = hn::Mul(tangent, cosine);
  a.Set(p * n + p, hn::NegMulAdd(tangent, pq, pp));
  a.Set(q * n + q, hn::MulAdd(tangent, pq, qq));
  a.Set(p * n + q, zero);
  const auto turn = [&](Lanes<T>& x, int64_t first, int64_t second) HWY_ATTR {
    const auto old = x.Get(first), other = x.Get(second);
    x.Set(first, hn::NegMulAdd(sine, other, hn::Mul(cosine, old)));
    x.Set(second, hn::MulAdd(sine, old, hn::Mul(cosine, other)));
  };
  for (int64_t i = 0; i < n; ++i) {
    turn(v, i * n + p, i * n + q);
    if (i == p || i == q) continue;
    turn(a, std::min(i, p) * n + std::max(i, p),
         std::min(i, q) * n + std::max(i, q));
  }
}

// Rotates until no element beside the diagonal counts.
template <typename T>
HWY_INLINE void Diagonalize(Lanes<T>& a, Lanes<T>& v, int64_t n) {
  constexpr int kMostSweeps = 16;  // they converge quadratically, after 4 or so
  const auto negligible = hn::Set(a.d, std::numeric_limits<T>::epsilon() / 16);
  for (int sweep = 0; sweep < kMostSweeps; ++sweep) {
    auto rest = hn::Zero(a.d);
    for (int64_t p = 0; p < n; ++p) {
      for (int64_t q = p + 1; q < n; ++q) {
        rest = hn::Max(rest, hn::Abs(a.Get(p * n + q)));
      }
    }
    if (hn::AllTrue(a.d, hn::Le(rest, negligible))) return;
    for (int64_t p = 0; p < n; ++p) {
      for (int64_t q = p + 1; q < n; ++q) Rotate(a, v, n, p, q);
    }
  }
}

// The values in the diagonal of `a`, rising, and the columns of v with them.
template <typename T>
HWY_INLINE void SortColumns(Lanes<T>& a, Lanes<T>& v, int64_t n) {
  for (int64_t last = n - 1; last > 0; --last) {
    for (int64_t j = 0; j < last; ++j) {
      const int64_t left = j * n + j, right = left + n + 1;
      const auto swap = hn::Gt(a.Get(left), a.Get(right));
      const auto exchange = [&](Lanes<T>& x, int64_t first,
                                int64_t second) HWY_ATTR {
        const auto old = x.Get(first), other = x.Get(second);
        x.Set(first, hn::IfThenElse(swap, other, old));
        x.Set(second, hn::IfThenElse(swap, old, other));
      };
      exchange(a, left, right);
      for (int64_t i = 0; i < n; ++i) exchange(v, i * n + j, i * n + j + 1);
    }
  }
}

template <typename T>
void EighBlocks(int64_t n, bool is_lower, const T* x, T* vectors, T* values,
                int64_t begin, int64_t end) {
  Lanes<T> a, v;
  const auto zero = hn::Zero(a.d), one = hn::Set(a.d, T(1));
  const auto nan = hn::Set(a.d, std::numeric_limits<T>::quiet_NaN());
  for (int64_t first = begin; first < end; first += a.Count()) {
    const int64_t count = std::min(a.Count(), end - first);
    // Of either triangle the upper one, in which the rotations work.
    a.Read(x + first * n * n, n * n, n * n, count, [&](int64_t e) {
      const int64_t low = std::min(e / n, e % n), high = std::max(e / n, e % n);
      return is_lower ? high * n + low : low * n + high;
    });
    auto largest = zero;
    auto is_finite = hn::Eq(zero, zero);
    for (int64_t e = 0; e < n * n; ++e) {
      is_finite = hn::And(is_finite, hn::IsFinite(a.Get(e)));
      largest = hn::Max(largest, hn::Abs(a.Get(e)));
      v.Set(e, e % (n + 1) == 0 ? one : zero);
    }
    const auto usual = hn::And(is_finite, hn::Gt(largest, zero));
    const auto scale = hn::IfThenElse(usual, largest, one);
    for (int64_t e = 0; e < n * n; ++e) {
      a.Set(e, hn::IfThenElseZero(usual, hn::Div(a.Get(e), scale)));
    }
    Diagonalize(a, v, n);
    SortColumns(a, v, n);
    for (int64_t e = 0; e < n * n; ++e) {
      a.Set(e, hn::IfThenElse(is_finite, hn::Mul(a.Get(e), scale), nan));
      v.Set(e, hn::IfThenElse(is_finite, v.Get(e), nan));
    }
    v.Write(vectors + first * n * n, n * n, n * n, count, Same);
    for (int64_t e = 0; e < n; ++e) a.Set(e, a.Get(e * (n + 1)));
    a.Write(values + first * n, n, n, count, Same);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace xla_ffi_kit
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace xla_ffi_kit {
namespace {

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
              [&](int64_t begin, int64_t end) {
                run(begin * kMatrices, std::min(end * kMatrices, batch));
              });
}

}  // namespace

template <typename T>
void Lu(int64_t batch, int64_t n, const T* a, T* lu, int32_t* pivots,
        int32_t* permutation, const Executor& executor) {
  HWY_EXPORT_T(Table, LuBlocks<T>);
  const auto run = HWY_DYNAMIC_POINTER_T(Table);
  ForMatrices<T>(batch, n * n, executor, [&](int64_t begin, int64_t end) {
    run(n, a, lu, pivots, permutation, begin, end);
  });
}

template <typename T>
void Cholesky(int64_t batch, int64_t n, const T* a, T* l,
              const Executor& executor) {
  HWY_EXPORT_T(Table, CholeskyBlocks<T>);
  const auto run = HWY_DYNAMIC_POINTER_T(Table);
  ForMatrices<T>(batch, n * n, executor,
                 [&](int64_t begin, int64_t end) { run(n, a, l, begin, end); });
}

template <typename T>
void SolveTriangular(const TriangularSolve& solve, const T* a, const T* b, T* x,
                     const Executor& executor) {
  HWY_EXPORT_T(Table, SolveBlocks<T>);
  const auto run = HWY_DYNAMIC_POINTER_T(Table);
  const int64_t elements = solve.n * (solve.n + solve.columns);
  ForMatrices<T>(
      solve.batch, elements, executor,
      [&](int64_t begin, int64_t end) { run(solve, a, b, x, begin, end); });
}

template <typename T>
void Eigh(int64_t batch, int64_t n, bool is_lower, const T* a, T* v, T* w,
          const Executor& executor) {
  HWY_EXPORT_T(Table, EighBlocks<T>);
  const auto run = HWY_DYNAMIC_POINTER_T(Table);
  // As long as 8 factorizations.
  ForMatrices<T>(batch, 8 * n * n, executor, [&](int64_t begin, int64_t end) {
    run(n, is_lower, a, v, w, begin, end);
  });
}

#define XLA_FFI_KIT_INSTANTIATE(T)                                             \
  template void Lu<T>(int64_t, int64_t, const T*, T*, int32_t*, int32_t*,      \
                      const Executor&);                                        \
  template void Cholesky<T>(int64_t, int64_t, const T*, T*, const Executor&);  \
  template void Eigh<T>(int64_t, int64_t, bool, const T*, T*, T*,              \
                        const Executor&);                                      \
  template void SolveTriangular<T>(const TriangularSolve&, const T*, const T*, \
                                   T*, const Executor&)
XLA_FFI_KIT_INSTANTIATE(float);
XLA_FFI_KIT_INSTANTIATE(double);
#undef XLA_FFI_KIT_INSTANTIATE

}  // namespace xla_ffi_kit

#endif  // HWY_ONCE
