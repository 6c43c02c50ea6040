"""Four drivers of SciPy's LAPACK as operations, by their declarations.

SciPy has LAPACK's functions in capsules, whose types are compared with what is
declared here. Derivatives follow from the equations that results solve.
"""

import jax
import jax.numpy as jnp
from scipy.linalg import cython_lapack

import xla_ffi_kit

jax.config.update("jax_enable_x64", True)


def driver(name, declaration, **options):
    """The driver: its results are what it overwrites and writes."""
    return xla_ffi_kit.c_function(
        f"void {name}({declaration}, status int* info)",
        cython_lapack.__pyx_capi__[name],
        name=f"lapack.{name}",
        **options,
    )


def general(name, number):
    """The solutions x of a x = b, for the columns of b."""

    def by_itself(_, b, transposed, x, a, *others):
        # Of complex numbers, a transpose is conjugated.
        return solve(a.T.conj() if transposed else a, b)

    solve = driver(
        name,
        f"""int* n, int* nrhs, in {number} a(n, n), int* lda = n,
        scratch int ipiv[n], inout {number} b(n, nrhs), int* ldb = n""",
        status="the matrix is singular",
        solves=lambda x, a, b: a @ x - b,
        advanced=xla_ffi_kit.Advanced(linear_solve=by_itself),
    )
    return solve


gesv = general("dgesv", "double")
complex_gesv = general("zgesv", "double _Complex")


def bands(lower, diagonal, upper, x):
    """A tridiagonal matrix times x."""
    y = diagonal[:, None] * x
    y = y.at[1:].add(lower[:, None] * x[:-1])
    return y.at[:-1].add(upper[:, None] * x[1:])


def by_bands(_, b, transposed, x, lower, diagonal, upper, *others):
    if transposed:
        lower, upper = upper, lower
    return gtsv(lower, diagonal, upper, b)


gtsv = driver(
    "dgtsv",
    """int* n, int* nrhs, in double lower[n-1], in double diagonal[n],
    in double upper[n-1], inout double b(n, nrhs), int* ldb = n""",
    status="the matrix is singular",
    solves=lambda x, lower, diagonal, upper, b: (
        bands(lower, diagonal, upper, x) - b
    ),
    advanced=xla_ffi_kit.Advanced(linear_solve=by_bands),
)


def eigenpairs(vectors, values, a):
    # LAPACK reads half of a, which is symmetric.
    rest = (a + a.T) / 2 @ vectors - vectors * values
    return rest, jnp.sum(vectors * vectors, 0) - 1


syevd = driver(
    "dsyevd",
    """char* jobz = 'V', char* uplo = 'U', int* n, inout double a(n, n),
    int* lda = n, out double values[n], scratch double work[1+6*n+2*n*n],
    int* lwork = 1+6*n+2*n*n, scratch int iwork[3+5*n], int* liwork = 3+5*n""",
    status="not converged",
    solves=eigenpairs,
)
