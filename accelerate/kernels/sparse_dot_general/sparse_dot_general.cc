#include "accelerate/kernels/sparse_dot_general/sparse_dot_general.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <type_traits>

#include "xla_ffi/core/dtypes.h"
#include "xla_ffi/core/parallel_for.h"
#include "xla_ffi/core/simd_targets.h"

// Compiles the rest of this file once per instruction set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE \
  "accelerate/kernels/sparse_dot_general/sparse_dot_general.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// Must come after foreach_target.h.
#include "hwy/highway.h"

#ifndef ACCELERATE_KERNELS_SPARSE_DOT_GENERAL_TASK_
#define ACCELERATE_KERNELS_SPARSE_DOT_GENERAL_TASK_

namespace xla_ffi_accelerate::sparse_dot_general {

// The work of a thread at a time: elements or rows of one matrix, and columns
// of the result.
template <typename T, typename I>
struct SparseTask {
  using Value = T;

  const T* data;
  const I* columns;  // of an element, which are `step` apart
  const I* rows;     // the same; or where the rows start
  int64_t step;
  const T* rhs;
  T* out;
  int64_t num_entries, num_rows, length, num_columns;
  int64_t begin, end;                 // elements, or rows
  int64_t first_column, last_column;  // of the result
  bool is_sorted;                     // by row, as far as is known
};

// Returns the place of index i in `size`; negative ones count from the end. The
// result is `size` or more if there is no such place.
inline uint64_t PlaceOf(int64_t i, int64_t size) {
  return static_cast<uint64_t>(i < 0 ? i + size : i);
}

}  // namespace xla_ffi_accelerate::sparse_dot_general

#endif  // ACCELERATE_KERNELS_SPARSE_DOT_GENERAL_TASK_

HWY_BEFORE_NAMESPACE();
namespace xla_ffi_accelerate::sparse_dot_general {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Sums of adjacent columns of the result. No vector is masked: a load waits
// long for a masked store before it.
template <class D, int kVectors>
class Sums {
 public:
  using T = hn::TFromD<D>;
  static constexpr auto kLanes = static_cast<int64_t>(hn::MaxLanes(D()));
  static constexpr int64_t kColumns = kVectors * kLanes;

  HWY_INLINE void Clear() {
    for (auto& sum : sums_) sum = hn::Zero(D());
  }
  HWY_INLINE void LoadFrom(const T* from) {
    for (int i = 0; i < kVectors; ++i) {
      sums_[i] = hn::LoadU(D(), from + i * kLanes);
    }
  }
  HWY_INLINE void StoreTo(T* to) const {
    for (int i = 0; i < kVectors; ++i) {
      hn::StoreU(sums_[i], D(), to + i * kLanes);
    }
  }
  // Not contracted to an FMA: see -ffp-contract in the BUILD file.
  HWY_INLINE void AddProduct(T x, const T* y) {
    const auto factor = hn::Set(D(), x);
    for (int i = 0; i < kVectors; ++i) {
      const auto columns = hn::LoadU(D(), y + i * kLanes);
      sums_[i] = hn::Add(sums_[i], hn::Mul(factor, columns));
    }
  }

 private:
  hn::Vec<D> sums_[kVectors];
};

// Adds the products of elements `begin` to `end`, all of one row.
template <class S, typename T, typename I>
HWY_INLINE void AddProducts(const SparseTask<T, I>& t, int64_t begin,
                            int64_t end, int64_t column, S& sums) {
  static constexpr T kZeros[HWY_MAX_BYTES / sizeof(T) * 2] = {};
  for (int64_t e = begin; e < end; ++e) {
    const uint64_t at = PlaceOf(t.columns[e * t.step], t.length);
    const bool is_inside = at < static_cast<uint64_t>(t.length);
    sums.AddProduct(t.data[e],
                    is_inside ? t.rhs + at * t.num_columns + column : kZeros);
  }
}

// A column of the result, from elements whose rows follow in any order.
template <bool kIsOnly, typename T, typename I>
void AddColumn(const SparseTask<T, I>& t, int64_t column) {
  // Known when compiled where there is no other column.
  const int64_t stride = kIsOnly ? 1 : t.num_columns;
  const int64_t step = t.step, num_rows = t.num_rows, length = t.length;
  const T* const data = t.data;
  const T* const rhs = t.rhs + column;
  T* const out = t.out + column;
  for (int64_t e = t.begin; e < t.end; ++e) {
    const uint64_t row = PlaceOf(t.rows[e * step], num_rows);
    const uint64_t at = PlaceOf(t.columns[e * step], length);
    if (HWY_UNLIKELY(row >= static_cast<uint64_t>(num_rows))) continue;
    const bool is_inside = HWY_LIKELY(at < static_cast<uint64_t>(length));
    const T y = is_inside ? rhs[at * stride] : 0;
    out[row * stride] += data[e] * y;
  }
}

// Each element of its own.
template <class S, typename T, typename I>
void AddEach(const SparseTask<T, I>& t, int64_t column, S& sums) {
  for (int64_t e = t.begin; e < t.end; ++e) {
    const uint64_t row = PlaceOf(t.rows[e * t.step], t.num_rows);
    if (HWY_UNLIKELY(row >= static_cast<uint64_t>(t.num_rows))) continue;
    T* const out = t.out + row * t.num_columns + column;
    sums.LoadFrom(out);
    AddProducts(t, e, e + 1, column, sums);
    sums.StoreTo(out);
  }
}

// Entries of a row from which it pays to look where a row ends: a branch that
// is predicted wrong once for each row. Measured.
constexpr int64_t kLongRow = 16;

// Each run of elements of one row keeps its sums in registers.
template <class S, typename T, typename I>
void AddEntries(const SparseTask<T, I>& t, int64_t column) {
  const bool is_long = t.num_entries / kLongRow >= t.num_rows;
  if (S::kColumns == 1 && !(t.is_sorted && is_long)) {
    return t.num_columns == 1 ? AddColumn<true>(t, column)
                              : AddColumn<false>(t, column);
  }
  S sums;
  if (!is_long) return AddEach(t, column, sums);
  for (int64_t begin = t.begin; begin < t.end;) {
    const I row = t.rows[begin * t.step];
    int64_t end = begin + 1;
    while (end < t.end && t.rows[end * t.step] == row) ++end;
    const uint64_t at = PlaceOf(row, t.num_rows);
    if (at < static_cast<uint64_t>(t.num_rows)) {
      T* const out = t.out + at * t.num_columns + column;
      sums.LoadFrom(out);
      AddProducts(t, begin, end, column, sums);
      sums.StoreTo(out);
    }
    begin = end;
  }
}

template <class S, typename T, typename I>
void FillRows(const SparseTask<T, I>& t, int64_t column) {
  S sums;
  const auto start = [&](int64_t row) {
    return std::clamp<int64_t>(t.rows[row], 0, t.num_entries);
  };
  T* out = t.out + t.begin * t.num_columns + column;
  for (int64_t row = t.begin; row < t.end; ++row, out += t.num_columns) {
    sums.Clear();
    AddProducts(t, start(row), start(row + 1), column, sums);
    sums.StoreTo(out);
  }
}

// Calls run(a Sums, its first column) for tiles of the columns that are left.
template <class Tile, class Run>
HWY_INLINE void ForEachTile(int64_t& column, int64_t end, const Run& run) {
  for (; column + Tile::kColumns <= end; column += Tile::kColumns) {
    run(TypeTag<Tile>(), column);
  }
}

// The same for all columns, with the widest tiles first.
template <typename T, class Run>
HWY_INLINE void ForEachColumn(int64_t column, int64_t end, const Run& run) {
  ForEachTile<Sums<hn::ScalableTag<T>, 2>>(column, end, run);
  ForEachTile<Sums<hn::CappedTag<T, 16>, 1>>(column, end, run);
  ForEachTile<Sums<hn::CappedTag<T, 8>, 1>>(column, end, run);
  ForEachTile<Sums<hn::CappedTag<T, 4>, 1>>(column, end, run);
  // In one pass over the elements, not two.
  ForEachTile<Sums<hn::CappedTag<T, 1>, 3>>(column, end, run);
  ForEachTile<Sums<hn::CappedTag<T, 2>, 1>>(column, end, run);
  ForEachTile<Sums<hn::CappedTag<T, 1>, 1>>(column, end, run);
}

template <class Task>
void RunCoordinates(const Task& t) {
  ForEachColumn<typename Task::Value>(
      t.first_column, t.last_column, [&](auto tag, int64_t column) HWY_ATTR {
        AddEntries<typename decltype(tag)::type>(t, column);
      });
}

template <class Task>
void RunRows(const Task& t) {
  ForEachColumn<typename Task::Value>(
      t.first_column, t.last_column, [&](auto tag, int64_t column) HWY_ATTR {
        FillRows<typename decltype(tag)::type>(t, column);
      });
}

}  // namespace HWY_NAMESPACE
}  // namespace xla_ffi_accelerate::sparse_dot_general
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace xla_ffi_accelerate::sparse_dot_general {
namespace {

// Bytes that an element makes a thread read and write.
template <typename T, typename I>
int64_t BytesOfEntry(const SparseProblem<T>& p) {
  return 2 * sizeof(I) + (1 + 2 * p.columns) * sizeof(T);
}

// Fewest columns of a thread of its own.
template <typename T>
constexpr int64_t kMinColumns = 64 / sizeof(T);

template <typename T, typename I>
SparseTask<T, I> TaskOf(const SparseProblem<T>& p, int64_t b) {
  SparseTask<T, I> t;
  t.data = p.data + b * p.data_stride;
  t.rhs = p.rhs + b * p.rhs_stride;
  t.out = p.out + b * p.rows * p.columns;
  t.num_entries = p.entries;
  t.num_rows = p.rows;
  t.length = p.length;
  t.num_columns = p.columns;
  t.first_column = 0;
  t.last_column = p.columns;
  t.is_sorted = false;
  return t;
}

// Whether the rows of elements `begin` to `end` ascend from the one before
// them, the first of all from 0. To its end without a branch, as most are
// sorted.
template <typename T, typename I>
bool IsSorted(const SparseTask<T, I>& t, int64_t begin, int64_t end) {
  bool descends = begin == 0 && end > 0 && t.rows[0] < 0;
  for (int64_t e = std::max<int64_t>(begin, 1); e < end; ++e) {
    descends |= t.rows[e * t.step] < t.rows[(e - 1) * t.step];
  }
  return !descends;
}

template <typename T, typename I>
bool AreAllSorted(const SparseTask<T, I>& t, int64_t parts,
                  const Executor& executor) {
  std::atomic<bool> is_sorted{true};
  ParallelParts(executor, t.num_entries, parts,
                [&](int64_t begin, int64_t end) noexcept {
                  if (!IsSorted(t, begin, end)) is_sorted = false;
                });
  return is_sorted.load();
}

// The first element from `e` on that begins a row.
template <typename T, typename I>
int64_t RowBegin(const SparseTask<T, I>& t, int64_t e) {
  while (e > 0 && e < t.num_entries &&
         t.rows[e * t.step] == t.rows[(e - 1) * t.step]) {
    ++e;
  }
  return e;
}

template <typename T>
void FillWithZeros(const SparseProblem<T>& p, const Executor& executor) {
  ParallelFor(executor, p.batch * p.rows * p.columns, sizeof(T),
              [&](int64_t begin, int64_t end) noexcept {
                std::fill(p.out + begin, p.out + end, T(0));
              });
}

}  // namespace

template <typename T, typename I>
void MultiplyCoordinates(const SparseProblem<T>& p,
                         const CoordinateIndices<I>& indices,
                         const Executor& executor) {
  using Task = SparseTask<T, I>;
  HWY_EXPORT_T(Table, RunCoordinates<Task>);
  const auto run = [](const Task& task) {
    HWY_DYNAMIC_DISPATCH_T(Table)(task);
  };
  const auto task_of = [&](int64_t b) {
    auto t = TaskOf<T, I>(p, b);
    const I* const first = indices.indices + b * indices.stride;
    t.step = 2;
    t.rows = first + 1 - indices.contracting;
    t.columns = first + indices.contracting;
    t.begin = 0;
    t.end = p.entries;
    return t;
  };
  FillWithZeros(p, executor);
  const int64_t entry = BytesOfEntry<T, I>(p);
  if (p.batch != 1) {
    return ParallelFor(executor, p.batch, p.entries * entry,
                       [&](int64_t begin, int64_t end) noexcept {
                         for (; begin < end; ++begin) run(task_of(begin));
                       });
  }
  // Threads must not add to the same place of one matrix.
  auto whole = task_of(0);
  const int64_t parts =
      NumParts(executor, p.entries, MinItems(kParallelForMinBytes / 2, entry));
  // The first ones suffice to choose a loop, but not to divide the work.
  whole.is_sorted = IsSorted(whole, 0, std::min<int64_t>(p.entries, 64));
  if (parts > 1 && whole.is_sorted) {
    whole.is_sorted = AreAllSorted(whole, parts, executor);
  }
  if (parts > 1 && whole.is_sorted) {
    return ParallelTasks(executor, parts, [&](int64_t part) noexcept {
      auto t = whole;
      t.begin = RowBegin(t, PartBegin(p.entries, parts, part));
      t.end = RowBegin(t, PartBegin(p.entries, parts, part + 1));
      run(t);
    });
  }
  const int64_t slices =
      parts > 1 ? NumParts(executor, p.columns, kMinColumns<T>) : 1;
  ParallelParts(executor, p.columns, slices,
                [&](int64_t begin, int64_t end) noexcept {
                  auto t = whole;
                  t.first_column = begin;
                  t.last_column = end;
                  run(t);
                });
}

template <typename T, typename I>
void MultiplyRows(const SparseProblem<T>& p, const RowIndices<I>& indices,
                  const Executor& executor) {
  if (p.rows == 0) return;
  using Task = SparseTask<T, I>;
  HWY_EXPORT_T(Table, RunRows<Task>);
  const int64_t entries = p.entries / p.rows + 1;  // of a row, on average
  ParallelFor(executor, p.batch * p.rows, entries * BytesOfEntry<T, I>(p),
              [&](int64_t begin, int64_t end) noexcept {
                while (begin < end) {
                  const int64_t b = begin / p.rows;
                  auto t = TaskOf<T, I>(p, b);
                  t.step = 1;
                  t.columns = indices.indices + b * indices.indices_stride;
                  t.rows = indices.starts + b * indices.starts_stride;
                  t.begin = begin - b * p.rows;
                  t.end = std::min(end - b * p.rows, p.rows);
                  HWY_DYNAMIC_DISPATCH_T(Table)(t);
                  begin += t.end - t.begin;
                }
              });
}

#define XLA_FFI_KIT_INSTANTIATE(T, I)                                         \
  template void MultiplyCoordinates(                                          \
      const SparseProblem<T>&, const CoordinateIndices<I>&, const Executor&); \
  template void MultiplyRows(const SparseProblem<T>&, const RowIndices<I>&,   \
                             const Executor&);
XLA_FFI_KIT_INSTANTIATE(float, int32_t)
XLA_FFI_KIT_INSTANTIATE(float, int64_t)
XLA_FFI_KIT_INSTANTIATE(double, int32_t)
XLA_FFI_KIT_INSTANTIATE(double, int64_t)
#undef XLA_FFI_KIT_INSTANTIATE

}  // namespace xla_ffi_accelerate::sparse_dot_general

#endif  // HWY_ONCE
