// Products of many small matrices, one after the other.

#ifndef ACCELERATE_KERNELS_DOT_GENERAL_DOT_GENERAL_H_
#define ACCELERATE_KERNELS_DOT_GENERAL_DOT_GENERAL_H_

#include <array>
#include <cstdint>
#include <vector>

#include "xla_ffi/core/call.h"

namespace xla_ffi_accelerate::dot_general {

using namespace xla_ffi_kit;  // its types and threads

// Most rows, columns and products per sum.
inline constexpr int64_t kMaxDotSize = 8;

// As jax.lax.dot_general and StableHLO's dot_general have it: dimensions of
// `lhs_batch` and `rhs_batch` go together, those of `lhs_contracting` and
// `rhs_contracting` are summed over, and out has the batch dimensions, the
// other ones of lhs and those of rhs. Sums have at most kMaxDotSize products,
// and a matrix of the result as many rows (of lhs) and columns (of rhs); the
// batch has any size. The scratch is 8 bytes for each dimension of the batch
// and each thread.
inline constexpr Operand lhs{"lhs", TypeList<float, double>()};
inline constexpr Operand rhs{"rhs", SameDtype(lhs)};
inline constexpr Result out{"out", SameDtype(lhs)};
inline constexpr Attribute<Dimensions> lhs_batch{"lhs_batch"};
inline constexpr Attribute<Dimensions> rhs_batch{"rhs_batch"};
inline constexpr Attribute<Dimensions> lhs_contracting{"lhs_contracting"};
inline constexpr Attribute<Dimensions> rhs_contracting{"rhs_contracting"};
// The names of the enumerators of DotOrder, in their order.
inline constexpr Word order{"order",         "fma",
                            "multiply_add",  "even_odd_fma",
                            "fma_then_zero", "multiply_add_then_zero"};
inline constexpr char kName[] = "xla_ffi_accelerate.dot_general";
using DotCall = Call<kName, lhs, rhs, out, lhs_batch, rhs_batch,
                     lhs_contracting, rhs_contracting, order>;

// How the products x[0] y[0], x[1] y[1], ... of a sum are added, since the
// library that XLA takes for small matrices depends on dtype, processor and
// release. All begin at 0. With a processor that has no FMA kFma and
// kEvenOddFma round the products too.
enum class DotOrder {
  // Adds one product after the other; rounds each product and its addition
  // once.
  kFma,
  // The same, but rounds each product too.
  kMultiplyAdd,
  // Adds products of even and of odd index by FMA, then both sums, then the
  // last product if the number of products is odd.
  kEvenOddFma,
  // The same as kFma and kMultiplyAdd, but adds 0 at the end. This turns -0,
  // which remains of small negative numbers that are flushed, into 0.
  kFmaThenZero,
  kMultiplyAddThenZero,
};

// A dimension of the batch, in elements of each operand.
struct DotBatchDim {
  int64_t size;
  int64_t lhs_stride;
  int64_t rhs_stride;
};

// out[b, i, j] = the sum over l < k of lhs[b, i, l] rhs[b, l, j].
template <typename T>
struct DotProblem {
  static constexpr int64_t kMaxElements = kMaxDotSize * kMaxDotSize;

  // Each at most kMaxDotSize.
  int64_t m = 0, n = 0, k = 0;
  // Outermost first, in the order of the result. Empty for one product.
  std::vector<DotBatchDim> batch;
  // The offset of each element in its matrix: i * k + l, and l * n + j.
  std::array<int64_t, kMaxElements> lhs_offsets;
  std::array<int64_t, kMaxElements> rhs_offsets;
  const T* lhs = nullptr;
  const T* rhs = nullptr;
  int64_t rhs_size = 0;  // elements of the whole operand
  T* out = nullptr;      // row-major; overlaps no operand
  DotOrder order = DotOrder::kFma;
};

}  // namespace xla_ffi_accelerate::dot_general

XLA_FFI_DECLARE_HANDLER_SYMBOL(XlaFfiAccelerateDotGeneralCpu);

#endif  // ACCELERATE_KERNELS_DOT_GENERAL_DOT_GENERAL_H_
