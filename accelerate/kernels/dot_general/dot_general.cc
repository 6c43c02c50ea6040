#include "accelerate/kernels/dot_general/dot_general.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "xla_ffi/core/parallel_for.h"
#include "xla_ffi/core/simd_targets.h"

// Compiles the rest of this file once per instruction set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "accelerate/kernels/dot_general/dot_general.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// Must come after foreach_target.h.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace xla_ffi_accelerate::dot_general {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// The sums of a row of the result, or as many of them as a vector has lanes.
// Multiply and Add of one expression are not contracted: see -ffp-contract in
// the BUILD file.
template <bool kFused, class V>
HWY_INLINE V AddProduct(V x, V y, V sum) {
  if constexpr (kFused) {
    return hn::MulAdd(x, y, sum);
  } else {
    return hn::Add(sum, hn::Mul(x, y));
  }
}

template <bool kFused, class D, typename T>
HWY_INLINE hn::Vec<D> SumsOfRow(D d, const T* lhs, const int64_t* offsets,
                                const T* rhs, int64_t rhs_row, int64_t k,
                                DotOrder order) {
  const auto add = [&](int64_t l, hn::Vec<D> sum) HWY_ATTR {
    return AddProduct<kFused>(hn::Set(d, lhs[offsets[l]]),
                              hn::LoadU(d, rhs + l * rhs_row), sum);
  };
  auto sum = hn::Zero(d);
  int64_t l = 0;
  if (order == DotOrder::kEvenOddFma) {
    auto odd = hn::Zero(d);
    for (; l + 2 <= k; l += 2) {
      sum = add(l, sum);
      odd = add(l + 1, odd);
    }
    sum = hn::Add(sum, odd);
  }
  for (; l < k; ++l) sum = add(l, sum);
  return order >= DotOrder::kFmaThenZero ? hn::Add(sum, hn::Zero(d)) : sum;
}

// The beginnings of the matrices of each batch element, one after the other.
template <typename T>
class BatchPlace {
 public:
  // `index` has room for one of each dimension of the batch.
  BatchPlace(const DotProblem<T>& p, int64_t i, int64_t* index)
      : dims_(p.batch), index_(index) {
    for (size_t axis = dims_.size(); axis-- > 0;) {
      const DotBatchDim& dim = dims_[axis];
      index_[axis] = i % dim.size;
      i /= dim.size;
      lhs_ += index_[axis] * dim.lhs_stride;
      rhs_ += index_[axis] * dim.rhs_stride;
    }
  }

  int64_t lhs() const { return lhs_; }
  int64_t rhs() const { return rhs_; }

  HWY_INLINE void Advance() {
    for (size_t axis = dims_.size(); axis-- > 0;) {
      const DotBatchDim& dim = dims_[axis];
      lhs_ += dim.lhs_stride;
      rhs_ += dim.rhs_stride;
      if (++index_[axis] < dim.size) return;
      lhs_ -= dim.size * dim.lhs_stride;
      rhs_ -= dim.size * dim.rhs_stride;
      index_[axis] = 0;
    }
  }

 private:
  const std::vector<DotBatchDim>& dims_;
  int64_t* const index_;
  int64_t lhs_ = 0, rhs_ = 0;
};

// Products `begin` to `end` of the batch.
template <bool kFused, typename T>
void Products(const DotProblem<T>& p, int64_t begin, int64_t end,
              int64_t* index) {
  const hn::CappedTag<T, kMaxDotSize> d;
  constexpr auto kLanes = static_cast<int64_t>(hn::MaxLanes(d));
  const int64_t m = p.m, n = p.n, k = p.k;
  const int64_t* const rhs_at = p.rhs_offsets.data();
  // Rows of consecutive elements are read where they are, as whole vectors.
  const int64_t row = k > 1 ? rhs_at[n] : n;
  bool has_rows = true;
  for (int64_t i = 0; i < k * n; ++i) {
    has_rows = has_rows && rhs_at[i] == i / n * row + i % n;
  }
  const int64_t read = k > 0 ? (k - 1) * row + kMaxDotSize : 0;
  HWY_ALIGN T copy[DotProblem<T>::kMaxElements];
  std::fill_n(copy, DotProblem<T>::kMaxElements, T(0));
  HWY_ALIGN T last[kMaxDotSize];

  T* out = p.out + begin * m * n;
  T* const out_end = p.out + end * m * n;
  BatchPlace<T> place(p, begin, index);
  for (; out < out_end; place.Advance()) {
    const T* const lhs = p.lhs + place.lhs();
    const T* rhs = p.rhs + place.rhs();
    int64_t rhs_row = row;
    if (!has_rows || place.rhs() + read > p.rhs_size) {
      for (int64_t l = 0; l < k; ++l) {
        for (int64_t j = 0; j < n; ++j) {
          copy[l * kMaxDotSize + j] = rhs[rhs_at[l * n + j]];
        }
      }
      rhs = copy;
      rhs_row = kMaxDotSize;
    }
    for (int64_t i = 0; i < m; ++i, out += n) {
      // A vector may reach into the next rows, which are written later.
      T* const to = out_end - out < kMaxDotSize ? last : out;
      for (int64_t j = 0; j < n; j += kLanes) {
        hn::StoreU(SumsOfRow<kFused>(d, lhs, p.lhs_offsets.data() + i * k,
                                     rhs + j, rhs_row, k, p.order),
                   d, to + j);
      }
      if (to == last) std::copy_n(last, n, out);
    }
  }
}

template <typename T>
void ProductsInOrder(const DotProblem<T>& p, int64_t begin, int64_t end,
                     int64_t* index) {
  const bool is_fused = p.order != DotOrder::kMultiplyAdd &&
                        p.order != DotOrder::kMultiplyAddThenZero;
  is_fused ? Products<true>(p, begin, end, index)
           : Products<false>(p, begin, end, index);
}

}  // namespace HWY_NAMESPACE
}  // namespace xla_ffi_accelerate::dot_general
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace xla_ffi_accelerate::dot_general {

template <typename T>
ScratchStatus DotGeneral(const DotProblem<T>& p, const Executor& executor) {
  int64_t count = 1;
  for (const DotBatchDim& dim : p.batch) count *= dim.size;
  if (count * p.m * p.n == 0) return {};
  const int64_t elements = p.m * p.k + p.k * p.n + p.m * p.n;
  const WorkerScratch<int64_t> index(NumWorkers(executor, count),
                                     static_cast<int64_t>(p.batch.size()));
  if (!index.status()) return index.status();
  HWY_EXPORT_T(Table, ProductsInOrder<T>);
  ParallelFor(executor, count, elements * sizeof(T),
              [&](int64_t begin, int64_t end, int64_t worker) noexcept {
                HWY_DYNAMIC_DISPATCH_T(Table)(p, begin, end, index.of(worker));
              });
  return {};
}

template ScratchStatus DotGeneral(const DotProblem<float>&, const Executor&);
template ScratchStatus DotGeneral(const DotProblem<double>&, const Executor&);

}  // namespace xla_ffi_accelerate::dot_general

#endif  // HWY_ONCE
