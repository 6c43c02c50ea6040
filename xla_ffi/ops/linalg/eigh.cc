// Eigenvalues and eigenvectors by Jacobi's rotations.

#include <algorithm>
#include <cstdint>
#include <limits>

#include "xla_ffi/core/simd_targets.h"
#include "xla_ffi/ops/linalg/linalg.h"
#include "xla_ffi/ops/linalg/linalg_parallel.h"

// Compiles the rest of this file once per instruction set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "xla_ffi/ops/linalg/eigh.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// Must come after foreach_target.h.
#include "hwy/highway.h"
#include "xla_ffi/ops/linalg/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace xla_ffi_kit {
namespace HWY_NAMESPACE {

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
    a.Read(x + first * n * n, n * n, n * n, count);
    // The rotations work in the upper triangle.
    for (int64_t e = 0; e < n * n; ++e) {
      const int64_t low = std::min(e / n, e % n), high = std::max(e / n, e % n);
      if (is_lower) a.Set(low * n + high, a.Get(high * n + low));
      if (!is_lower) a.Set(high * n + low, a.Get(low * n + high));
    }
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
    v.Write(vectors + first * n * n, n * n, n * n, count);
    for (int64_t e = 0; e < n; ++e) a.Set(e, a.Get(e * (n + 1)));
    a.Write(values + first * n, n, n, count);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace xla_ffi_kit
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace xla_ffi_kit {

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

template void Eigh<float>(int64_t, int64_t, bool, const float*, float*, float*,
                          const Executor&);
template void Eigh<double>(int64_t, int64_t, bool, const double*, double*,
                           double*, const Executor&);

}  // namespace xla_ffi_kit

#endif  // HWY_ONCE
