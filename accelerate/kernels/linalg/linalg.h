// Factorizations of many small matrices, and solves, on the CPU. Each lane of a
// vector holds a matrix.

#ifndef ACCELERATE_KERNELS_LINALG_LINALG_H_
#define ACCELERATE_KERNELS_LINALG_LINALG_H_

#include <cstdint>

#include "xla_ffi/core/executor.h"

namespace xla_ffi_accelerate::linalg {

using namespace xla_ffi_kit;  // its types and threads

// Matrices are n x n, row-major, one after the other; n is 1 to kMaxMatrix.
inline constexpr int64_t kMaxMatrix = 16;

// LU factorization by rows with partial pivoting: `a` = P L U, L unit lower
// triangular, both in `lu`. In step k rows k and pivots[k] are swapped: that of
// the first largest magnitude. A column without one, all of it 0.0, is left.
// permutation: which row of `a` each row of L U is. T: float or double.
template <typename T>
void Lu(int64_t batch, int64_t n, const T* a, T* lu, int32_t* pivots,
        int32_t* permutation, const Executor& executor);

// Computes the lower triangle `l` of `a` = L L^T, with zeros above. All of `l`
// is NaN if a pivot is <= 0; a NaN in `a` only spreads. Only the lower triangle
// of `a` is read. T: float or double.
template <typename T>
void Cholesky(int64_t batch, int64_t n, const T* a, T* l,
              const Executor& executor);

// Eigenvalues w[n] of a symmetric matrix, rising, and eigenvectors, the columns
// of v[n, n], by Jacobi's rotations. Of `a` one triangle is read. All of a
// matrix that is not finite is NaN. Eigenvalues are within 16 eps of the
// largest, 4 n eps where n > 4; rows and columns that are coupled with no
// others have theirs as if they were a matrix of their own. T: float or double.
template <typename T>
void Eigh(int64_t batch, int64_t n, bool is_lower, const T* a, T* v, T* w,
          const Executor& executor);

struct TriangularSolve {
  int64_t batch = 1;
  int64_t n = 1;
  int64_t columns = 1;           // vectors that are solved for
  bool is_left = true;           // b is [n, columns], otherwise [columns, n]
  bool is_lower = true;          // which triangle of a is read
  bool is_transposed = false;    // a is transposed first
  bool is_diagonal_one = false;  // whatever is in the diagonal of a
};

// Solves a x = b, or x a = b, for x, like b. A zero in the diagonal gives what
// dividing by it does. T: float or double.
template <typename T>
void SolveTriangular(const TriangularSolve& solve, const T* a, const T* b, T* x,
                     const Executor& executor);

}  // namespace xla_ffi_accelerate::linalg

#endif  // ACCELERATE_KERNELS_LINALG_LINALG_H_
