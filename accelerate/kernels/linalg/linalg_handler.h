// The FFI handlers of small linear algebra, on the CPU.
//
// All of any number of matrices n x n, n from 1 to kMaxMatrix (linalg.h), f32
// or f64.
//
// Target xla_ffi_accelerate.linalg_lu:
// a[..., n, n] -> lu[..., n, n], pivots[..., n], permutation[..., n]
//
// L, unit lower triangular, and U, of rows `permutation` of a; s32 pivots, as
// LAPACK's getrf has them but from 0 on. A singular matrix has zeros in U.
//
// Target xla_ffi_accelerate.linalg_cholesky: a[..., n, n] -> l[..., n, n]
//
// The lower triangle of a = L L^T, zeros above; all of it NaN for a matrix that
// is not positive definite. Reads the lower triangle.
//
// Target xla_ffi_accelerate.linalg_eigh: a[..., n, n] -> v[..., n, n], w[...,
// n]
//
// Computes eigenvectors, the columns of v, and eigenvalues in ascending order,
// of symmetric matrices. Only the lower or the upper triangle is read;
// attribute is_lower: s64. A matrix that is not finite gives NaNs.
//
// Target xla_ffi_accelerate.linalg_triangular_solve:
// a[..., n, n], b[..., n, m] -> x[..., n, m]; if is_left is 0, b and x [m, n]
//
// a x = b, or x a = b, with a triangle of a, or of its transpose; attributes
// is_left, is_lower, is_transposed, is_diagonal_one: s64.
//
// Errors are INVALID_ARGUMENT.

#ifndef ACCELERATE_KERNELS_LINALG_LINALG_HANDLER_H_
#define ACCELERATE_KERNELS_LINALG_LINALG_HANDLER_H_

#include "xla/ffi/api/ffi.h"

XLA_FFI_DECLARE_HANDLER_SYMBOL(XlaFfiAccelerateLinalgLuCpu);
XLA_FFI_DECLARE_HANDLER_SYMBOL(XlaFfiAccelerateLinalgCholeskyCpu);
XLA_FFI_DECLARE_HANDLER_SYMBOL(XlaFfiAccelerateLinalgEighCpu);
XLA_FFI_DECLARE_HANDLER_SYMBOL(XlaFfiAccelerateLinalgTriangularSolveCpu);

#endif  // ACCELERATE_KERNELS_LINALG_LINALG_HANDLER_H_
