// Factorizations of many small matrices, and solves, on the CPU.
//
// Matrices are n x n, row-major, one after the other; n is 1 to kMaxMatrix.

#ifndef ACCELERATE_KERNELS_LINALG_LINALG_H_
#define ACCELERATE_KERNELS_LINALG_LINALG_H_

#include <cstdint>

#include "xla_ffi/core/call.h"

namespace xla_ffi_accelerate::linalg {

using namespace xla_ffi_kit;  // its types and threads

inline constexpr int64_t kMaxMatrix = 16;

inline constexpr auto a =
    Operand{"a", TypeList<float, double>(), "(..., n, n)"}.Where("n", 1,
                                                                 kMaxMatrix);

// LU factorization by rows with partial pivoting: `a` = P L U, L unit lower
// triangular, both in `lu`. In step k rows k and pivots[k], counted from 0, are
// swapped: that of the first largest magnitude. A column without one, all of it
// 0.0, is left. permutation: which row of `a` each row of L U is.
inline constexpr Result lu{"lu", a};
inline constexpr Result pivots{"pivots", TypeList<int32_t>(), "(..., n)"};
inline constexpr Result permutation{"permutation", TypeList<int32_t>(),
                                    "(..., n)"};
inline constexpr char kLuName[] = "xla_ffi_accelerate.linalg_lu";
using LuCall = Call<kLuName, a, lu, pivots, permutation>;

// Computes the lower triangle `l` of `a` = L L^T, with zeros above. All of `l`
// is NaN if a pivot is <= 0; a NaN in `a` only spreads. Only the lower triangle
// of `a` is read.
inline constexpr Result l{"l", a};
inline constexpr char kCholeskyName[] = "xla_ffi_accelerate.linalg_cholesky";
using CholeskyCall = Call<kCholeskyName, a, l>;

// Solves a x = b, or x a = b, for x. A zero in the diagonal gives what dividing
// by it does.
inline constexpr Operand b{"b", SameDtype(a), "(..., rows, columns)"};
inline constexpr Result x{"x", b};
inline constexpr Attribute<int64_t> is_left{"is_left"};
inline constexpr Attribute<int64_t> is_lower{"is_lower"};
inline constexpr Attribute<int64_t> is_transposed{"is_transposed"};
inline constexpr Attribute<int64_t> is_diagonal_one{"is_diagonal_one"};
inline constexpr char kSolveName[] =
    "xla_ffi_accelerate.linalg_triangular_solve";
using SolveCall = Call<kSolveName, a, b, x, is_left, is_lower, is_transposed,
                       is_diagonal_one>;

// What these attributes say.
struct TriangularSolve {
  int64_t batch = 1;
  int64_t n = 1;
  int64_t columns = 1;           // vectors that are solved for
  bool is_left = true;           // b is [n, columns], otherwise [columns, n]
  bool is_lower = true;          // which triangle of a is read
  bool is_transposed = false;    // a is transposed first
  bool is_diagonal_one = false;  // whatever is in the diagonal of a
};

}  // namespace xla_ffi_accelerate::linalg

XLA_FFI_DECLARE_HANDLER_SYMBOL(XlaFfiAccelerateLinalgLuCpu);
XLA_FFI_DECLARE_HANDLER_SYMBOL(XlaFfiAccelerateLinalgCholeskyCpu);
XLA_FFI_DECLARE_HANDLER_SYMBOL(XlaFfiAccelerateLinalgTriangularSolveCpu);

#endif  // ACCELERATE_KERNELS_LINALG_LINALG_H_
