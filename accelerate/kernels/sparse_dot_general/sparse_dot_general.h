// Products of sparse matrices and dense ones.

#ifndef ACCELERATE_KERNELS_SPARSE_DOT_GENERAL_SPARSE_DOT_GENERAL_H_
#define ACCELERATE_KERNELS_SPARSE_DOT_GENERAL_SPARSE_DOT_GENERAL_H_

#include <cstdint>

#include "xla_ffi/core/call.h"
#include "xla_ffi/core/executor.h"

namespace xla_ffi_accelerate::sparse_dot_general {

using namespace xla_ffi_kit;  // its types and threads

// A matrix has `entries` elements, data[b, e]; out[b] = lhs[b] rhs[b]. An
// operand whose batch is 1 is the same for all of the result's. What indices
// out of range are is said below.
inline constexpr Operand data{"data", TypeList<float, double>(),
                              "(data_batch, entries)"};
inline constexpr Operand rhs{"rhs", SameDtype(data),
                             "(rhs_batch, length, columns)"};
inline constexpr Result out{"out", SameDtype(data), "(batch, rows, columns)"};

// The element data[b, e] is in the row indices[b, e, 1 - contracting] and the
// column indices[b, e, contracting].
inline constexpr Operand coordinates{"indices", TypeList<int32_t, int64_t>(),
                                     "(indices_batch, entries, 2)"};
inline constexpr auto contracting =
    Attribute<int64_t>{"contracting"}.Between(0, 1);
inline constexpr char kBcooName[] = "xla_ffi_accelerate.bcoo_dot_general";
using BcooCall = Call<kBcooName, data, coordinates, rhs, out, contracting>;

// Row i has the elements from indptr[b, i] up to indptr[b, i + 1], each in the
// column that indices[b, e] has; so there are rows + 1 starts.
inline constexpr Operand indices{"indices", TypeList<int32_t, int64_t>(),
                                 "(indices_batch, entries)"};
inline constexpr Operand indptr{"indptr", SameDtype(indices),
                                "(indptr_batch, starts)"};
inline constexpr char kBcsrName[] = "xla_ffi_accelerate.bcsr_dot_general";
using BcsrCall = Call<kBcsrName, data, indices, indptr, rhs, out>;

// out[b] = lhs[b] rhs[b] for each b < batch. lhs[b] has `rows` rows; rhs[b] has
// `length` rows and `columns` columns, row-major, and so has out[b]; out
// overlaps no operand.
//
// An element of lhs is data[e] in its row and its column, e < entries. Elements
// are multiplied and added to the result in the order in which they are stored,
// each product rounded and each sum, beginning at 0, as XLA's own code does.
//
// A negative column counts from the end. One that is out of range then has
// zeros in rhs (the product may be NaN). Nothing out of range is read.
template <typename T>
struct SparseProblem {
  int64_t batch = 0, entries = 0, rows = 0, length = 0, columns = 0;
  const T* data = nullptr;
  const T* rhs = nullptr;
  T* out = nullptr;
  // Distances between batch elements, in elements; 0 if all share one.
  int64_t data_stride = 0, rhs_stride = 0;
};

// Rows and columns of the elements: [batch, entries, 2], of which the second
// has stride 0 if all places in the batch share them. Negative rows count from
// the end; elements whose row is out of range are dropped.
template <typename I>
struct CoordinateIndices {
  const I* indices = nullptr;
  int64_t stride = 0;       // from one place in the batch to the next
  int64_t contracting = 1;  // which of the two is the column
};

// Columns of the elements, and where each row begins and ends, of the `rows`
// one after the other: [batch, entries] and [batch, rows + 1]. A row that ends
// before it begins is empty; ends beyond the elements are those of the last.
template <typename I>
struct RowIndices {
  const I* indices = nullptr;
  const I* starts = nullptr;
  int64_t indices_stride = 0, starts_stride = 0;
};

// T: float, double. I: int32_t, int64_t.
template <typename T, typename I>
void MultiplyCoordinates(const SparseProblem<T>& problem,
                         const CoordinateIndices<I>& indices,
                         const Executor& executor);
template <typename T, typename I>
void MultiplyRows(const SparseProblem<T>& problem, const RowIndices<I>& indices,
                  const Executor& executor);

}  // namespace xla_ffi_accelerate::sparse_dot_general

XLA_FFI_DECLARE_HANDLER_SYMBOL(XlaFfiAccelerateBcooDotGeneralCpu);
XLA_FFI_DECLARE_HANDLER_SYMBOL(XlaFfiAccelerateBcsrDotGeneralCpu);

#endif  // ACCELERATE_KERNELS_SPARSE_DOT_GENERAL_SPARSE_DOT_GENERAL_H_
