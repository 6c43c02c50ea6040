#include "accelerate/kernels/dot_general/dot_general.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "xla_ffi/core/handler.h"
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
namespace {

namespace ffi = ::xla::ffi;

// A dimension, and how far its elements are apart.
struct Dim {
  int64_t size;
  int64_t stride;
};

// An operand's dimensions by what they are for.
struct Dims {
  std::vector<Dim> batch, free, contracting;
};

// Takes out of `dims` those that an attribute lists, in its order; those taken
// have size -1 afterwards.
template <const auto& kAttribute>
ffi::Error Take(const DotCall& call, std::vector<Dim>& dims,
                std::vector<Dim>* taken) {
  for (const int64_t axis : call.get<kAttribute>()) {
    if (axis < 0 || axis >= static_cast<int64_t>(dims.size()) ||
        dims[axis].size < 0) {
      return call.Invalid<kAttribute>(
          "different dimensions of an operand of rank " +
              std::to_string(dims.size()),
          std::to_string(axis));
    }
    taken->push_back(dims[axis]);
    dims[axis].size = -1;
  }
  return {};
}

template <const auto& kOperand, const auto& kBatch, const auto& kContracting>
ffi::Error Classify(const DotCall& call, Dims* dims) {
  const Dimensions sizes = call.get<kOperand>().dims();
  std::vector<Dim> all(sizes.size());
  int64_t stride = 1;
  for (size_t axis = all.size(); axis-- > 0;) {
    all[axis] = {sizes[axis], stride};
    stride = Product(sizes.last(all.size() - axis));
  }
  XLA_FFI_KIT_RETURN_IF_ERROR(Take<kBatch>(call, all, &dims->batch));
  XLA_FFI_KIT_RETURN_IF_ERROR(
      Take<kContracting>(call, all, &dims->contracting));
  std::copy_if(all.begin(), all.end(), std::back_inserter(dims->free),
               [](const Dim& dim) { return dim.size >= 0; });
  return {};
}

std::vector<int64_t> SizesOf(const std::vector<Dim>& dims) {
  std::vector<int64_t> sizes;
  for (const Dim& dim : dims) sizes.push_back(dim.size);
  return sizes;
}

std::string SizesText(const std::vector<Dim>& dims) {
  const std::vector<int64_t> sizes = SizesOf(dims);
  return ShapeText({sizes.data(), sizes.size()});
}

ffi::Error CheckSameSizes(const Place& where, const std::vector<Dim>& rhs,
                          const std::vector<Dim>& lhs) {
  if (SizesOf(lhs) == SizesOf(rhs)) return {};
  return InvalidArgument(where, SizesText(lhs) + " like operand lhs",
                         SizesText(rhs));
}

// Computes how many elements the dimensions have together.
ffi::Error CheckSmall(const Place& where, const std::vector<Dim>& dims,
                      int64_t* size) {
  *size = 1;
  for (const Dim& dim : dims) {
    if (dim.size == 0) {
      *size = 0;
      return {};
    }
  }
  for (const Dim& dim : dims) {
    if (dim.size > kMaxDotSize / *size) {
      return InvalidArgument(where, "at most 8 elements together",
                             SizesText(dims));
    }
    *size *= dim.size;
  }
  return {};
}

// Fills in the offsets of a matrix's `count` elements, row by row.
void FillOffsets(const std::vector<Dim>& rows, const std::vector<Dim>& columns,
                 int64_t count, int64_t* offsets) {
  std::vector<Dim> dims = rows;
  dims.insert(dims.end(), columns.begin(), columns.end());
  for (int64_t i = 0; i < count; ++i) {
    int64_t rest = i;
    offsets[i] = 0;
    for (size_t axis = dims.size(); axis-- > 0;) {
      offsets[i] += rest % dims[axis].size * dims[axis].stride;
      rest /= dims[axis].size;
    }
  }
}

// Neighboring dimensions of the batch as one, where both operands allow it.
std::vector<DotBatchDim> Batch(const Dims& lhs, const Dims& rhs) {
  std::vector<DotBatchDim> batch;
  for (size_t i = 0; i < lhs.batch.size(); ++i) {
    const DotBatchDim dim = {lhs.batch[i].size, lhs.batch[i].stride,
                             rhs.batch[i].stride};
    if (!batch.empty() &&
        batch.back().lhs_stride == dim.size * dim.lhs_stride &&
        batch.back().rhs_stride == dim.size * dim.rhs_stride) {
      batch.back() = {batch.back().size * dim.size, dim.lhs_stride,
                      dim.rhs_stride};
    } else {
      batch.push_back(dim);
    }
  }
  return batch;
}

std::vector<int64_t> ResultShape(const Dims& lhs, const Dims& rhs) {
  std::vector<int64_t> shape;
  for (const auto* dims : {&lhs.batch, &lhs.free, &rhs.free}) {
    for (const Dim& dim : *dims) shape.push_back(dim.size);
  }
  return shape;
}

// How many elements the dimensions of a product have together.
struct Sizes {
  int64_t m, n, k;
};

ffi::Error CheckShapes(const DotCall& call, const Dims& l, const Dims& r,
                       Sizes* sizes) {
  const std::string_view op = call.operation();
  XLA_FFI_KIT_RETURN_IF_ERROR(
      CheckSameSizes({op, "operand rhs: batch dimensions"}, r.batch, l.batch));
  XLA_FFI_KIT_RETURN_IF_ERROR(
      CheckSameSizes({op, "operand rhs: contracting dimensions"}, r.contracting,
                     l.contracting));
  XLA_FFI_KIT_RETURN_IF_ERROR(CheckSmall(
      {op, "operand lhs: contracting dimensions"}, l.contracting, &sizes->k));
  XLA_FFI_KIT_RETURN_IF_ERROR(
      CheckSmall({op, "operand lhs: other dimensions"}, l.free, &sizes->m));
  XLA_FFI_KIT_RETURN_IF_ERROR(
      CheckSmall({op, "operand rhs: other dimensions"}, r.free, &sizes->n));
  const std::vector<int64_t> shape = ResultShape(l, r);
  const Dimensions want(shape.data(), shape.size());
  if (call.get<out>().dims() == want) return {};
  return call.Invalid<out>("shape " + ShapeText(want) + " from the operands",
                           "shape " + ShapeText(call.get<out>().dims()));
}

template <typename T>
ScratchStatus Multiply(const DotProblem<T>& p, const Executor& executor) {
  int64_t count = 1;
  for (const DotBatchDim& dim : p.batch) count *= dim.size;
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

ffi::Error Run(const DotCall& call, const Executor& executor) {
  Dims l, r;
  Sizes sizes;
  XLA_FFI_KIT_RETURN_IF_ERROR(
      (Classify<lhs, lhs_batch, lhs_contracting>(call, &l)));
  XLA_FFI_KIT_RETURN_IF_ERROR(
      (Classify<rhs, rhs_batch, rhs_contracting>(call, &r)));
  XLA_FFI_KIT_RETURN_IF_ERROR(CheckShapes(call, l, r, &sizes));
  if (call.get<out>().count() == 0) return {};
  return call.Dispatch<lhs>([&](auto tag) -> ffi::Error {
    const auto [m, n, k] = sizes;
    DotProblem<typename decltype(tag)::type> p;
    p.m = m;
    p.n = n;
    p.k = k;
    p.batch = Batch(l, r);
    FillOffsets(l.free, l.contracting, m * k, p.lhs_offsets.data());
    FillOffsets(r.contracting, r.free, k * n, p.rhs_offsets.data());
    p.lhs = call.get<lhs>().as(tag);
    p.rhs = call.get<rhs>().as(tag);
    p.rhs_size = call.get<rhs>().count();
    p.out = call.get<out>().as(tag);
    p.order = static_cast<DotOrder>(call.get<order>());
    const ScratchStatus status = Multiply(p, executor);
    if (status) return {};
    return ScratchExhausted(
        call.operation(),
        "for " + std::to_string(p.batch.size()) + " dimensions of the batch",
        status);
  });
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(XlaFfiAccelerateDotGeneralCpu, Checked<Run>,
                              BindCall<Run>());
XLA_FFI_KIT_DEFINE_SIGNATURE(XlaFfiAccelerateDotGeneralCpu, DotCall);

}  // namespace xla_ffi_accelerate::dot_general

#endif  // HWY_ONCE
