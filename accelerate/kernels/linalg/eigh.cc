// Eigenvalues and eigenvectors by Jacobi's rotations.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "accelerate/kernels/linalg/linalg.h"
#include "accelerate/kernels/linalg/linalg_parallel.h"
#include "xla_ffi/core/handler.h"
#include "xla_ffi/core/simd_targets.h"

// Compiles the rest of this file once per instruction set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "accelerate/kernels/linalg/eigh.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// Must come after foreach_target.h.
#include "accelerate/kernels/linalg/lanes-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace xla_ffi_accelerate::linalg {
namespace HWY_NAMESPACE {

// The power of two whose product with x >= 0 is in [1, 2), or less than that
// where x is subnormal or 0. x is less than half the largest power of two.
template <typename T, class V>
HWY_INLINE V PowerAgainst(hn::ScalableTag<T> d, V x) {
  const hn::RebindToUnsigned<hn::ScalableTag<T>> du;
  using Bits = hn::TFromD<decltype(du)>;
  constexpr int kMantissa = std::numeric_limits<T>::digits - 1;
  constexpr Bits kSign = Bits{1} << (8 * sizeof(T) - 1);
  constexpr Bits kExponent = kSign - (Bits{1} << kMantissa);
  constexpr Bits kTwiceBias = kExponent - (Bits{1} << kMantissa);
  const auto exponent = hn::And(hn::BitCast(du, x), hn::Set(du, kExponent));
  return hn::BitCast(d, hn::Sub(hn::Set(du, kTwiceBias), exponent));
}

// Whether element (p, q) of a symmetric matrix, p < q, counts. It is compared
// with its neighbors in the diagonal, not with the largest element, so that
// small rows without coupling to large ones are exact, too.
template <typename T>
HWY_INLINE auto Counts(const Lanes<T>& a, int64_t n, int64_t p, int64_t q) {
  const auto negligible = hn::Set(a.d, std::numeric_limits<T>::epsilon() / 4);
  const auto smaller =
      hn::Min(hn::Abs(a.Get(p * n + p)), hn::Abs(a.Get(q * n + q)));
  return hn::Gt(hn::Abs(a.Get(p * n + q)), hn::Mul(negligible, smaller));
}

// Rotates rows and columns p < q where `counts`, by which element (p, q) of `a`
// gets 0, and the columns of v. Only the upper triangle of `a` is used. In
// other lanes nothing changes but signs of zeros, so that results do not depend
// on the other matrices of a vector.
template <typename T, class M>
HWY_INLINE void Rotate(Lanes<T>& a, Lanes<T>& v, int64_t n, int64_t p,
                       int64_t q, M counts) {
  const auto one = hn::Set(a.d, T(1));
  const auto pp = a.Get(p * n + p), pq = a.Get(p * n + q),
             qq = a.Get(q * n + q);
  const auto difference = hn::Sub(qq, pp), twice = hn::Add(pq, pq);
  // The larger one of x and y is in [1, 2), so that it does not matter where
  // the square of the smaller one underflows.
  const auto power =
      PowerAgainst<T>(a.d, hn::Max(hn::Abs(difference), hn::Abs(twice)));
  const auto x = hn::Mul(hn::Abs(difference), power);
  // Not the sign bit, which a zero may have.
  const auto is_negative = hn::Lt(difference, hn::Zero(a.d));
  const auto y =
      hn::Mul(hn::IfThenElse(is_negative, hn::Neg(twice), twice), power);
  // The angle's tangent is y / below; of the two that give 0 the smaller.
  const auto squared = hn::Mul(y, y);
  const auto below = hn::Add(x, hn::Sqrt(hn::MulAdd(x, x, squared)));
  const auto length = hn::Sqrt(hn::MulAdd(below, below, squared));
  // One exactly for the smallest angles: many rotations keep vectors at length
  // 1.
  const auto cosine = hn::IfThenElse(counts, hn::Div(below, length), one);
  const auto tangent = hn::IfThenElseZero(counts, hn::Div(y, below));
  const auto sine = hn::Mul(tangent, cosine);
  a.Set(p * n + p, hn::NegMulAdd(tangent, pq, pp));
  a.Set(q * n + q, hn::MulAdd(tangent, pq, qq));
  a.Set(p * n + q, hn::IfThenZeroElse(counts, pq));
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
  bool is_done = false;
  for (int sweep = 0; sweep < kMostSweeps && !is_done; ++sweep) {
    is_done = true;
    for (int64_t p = 0; p < n; ++p) {
      for (int64_t q = p + 1; q < n; ++q) {
        const auto counts = Counts(a, n, p, q);
        if (hn::AllFalse(a.d, counts)) continue;
        is_done = false;
        Rotate(a, v, n, p, q, counts);
      }
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
  // Matrices are scaled by powers of two, which is exact, and as far up as 8
  // rows can grow, so that what is far smaller than the rest keeps its bits.
  constexpr int kMost = std::numeric_limits<T>::max_exponent - 2;
  const auto most = hn::Set(a.d, std::ldexp(T(1), kMost));
  const auto high = hn::Set(a.d, std::ldexp(T(1), kMost - 8));
  for (int64_t first = begin; first < end; first += a.Count()) {
    const int64_t count = std::min(a.Count(), end - first);
    a.Read(x + first * n * n, n * n, n * n, count);
    // The rotations work in the upper triangle.
    for (int64_t e = 0; e < n * n; ++e) {
      const int64_t r = std::min(e / n, e % n), c = std::max(e / n, e % n);
      if (is_lower) a.Set(r * n + c, a.Get(c * n + r));
      if (!is_lower) a.Set(c * n + r, a.Get(r * n + c));
    }
    auto largest = zero;
    auto is_finite = hn::Eq(zero, zero);
    for (int64_t e = 0; e < n * n; ++e) {
      is_finite = hn::And(is_finite, hn::IsFinite(a.Get(e)));
      largest = hn::Max(largest, hn::Abs(a.Get(e)));
      v.Set(e, e % (n + 1) == 0 ? one : zero);
    }
    // At most `most`, whose reciprocal is not subnormal.
    const auto power = hn::Min(
        hn::Mul(PowerAgainst<T>(a.d, hn::Min(largest, most)), high), most);
    for (int64_t e = 0; e < n * n; ++e) {
      a.Set(e, hn::IfThenElseZero(is_finite, hn::Mul(a.Get(e), power)));
    }
    Diagonalize(a, v, n);
    SortColumns(a, v, n);
    const auto reciprocal = hn::Div(one, power);
    for (int64_t e = 0; e < n * n; ++e) {
      // Zeros are positive: their signs depend on the other lanes' rotations.
      a.Set(e, hn::IfThenElse(is_finite, hn::MulAdd(a.Get(e), reciprocal, zero),
                              nan));
      v.Set(e, hn::IfThenElse(is_finite, hn::Add(v.Get(e), zero), nan));
    }
    v.Write(vectors + first * n * n, n * n, n * n, count);
    for (int64_t e = 0; e < n; ++e) a.Set(e, a.Get(e * (n + 1)));
    a.Write(values + first * n, n, n, count);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace xla_ffi_accelerate::linalg
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace xla_ffi_accelerate::linalg {
namespace {

namespace ffi = ::xla::ffi;

ffi::Error RunEigh(const EighCall& call, const Executor& executor) {
  const Dimensions dims = call.get<a>().dims();
  const bool reads_lower = call.get<is_lower>() != 0;
  return call.Dispatch<a>([&](auto tag) {
    using T = typename decltype(tag)::type;
    HWY_EXPORT_T(Table, EighBlocks<T>);
    const auto run = HWY_DYNAMIC_POINTER_T(Table);
    const int64_t n = dims.back();
    // The rotations take as long as 8 factorizations.
    ForMatrices<T>(
        BatchOf(dims), 8 * n * n, executor, [&](int64_t begin, int64_t end) {
          run(n, reads_lower, call.get<a>().as(tag), call.get<v>().as(tag),
              call.get<w>().as(tag), begin, end);
        });
    return ffi::Error();
  });
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(XlaFfiAccelerateLinalgEighCpu, Checked<RunEigh>,
                              BindCall<RunEigh>());
XLA_FFI_KIT_DEFINE_SIGNATURE(XlaFfiAccelerateLinalgEighCpu, EighCall);

}  // namespace xla_ffi_accelerate::linalg

#endif  // HWY_ONCE
