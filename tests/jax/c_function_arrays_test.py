"""LAPACK's drivers and functions of arrays, as declarations say their roles."""

import functools
import subprocess

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg
from common import collectives, mesh_of, on
from scipy.linalg import cython_blas, cython_lapack

from xla_ffi_kit import c_function
from xla_ffi_kit.compile import compiler
from xla_ffi_kit.testing import Case, check_op

jax.config.update("jax_enable_x64", True)

RNG = np.random.default_rng(0)


def lapack(signature, **options):
    symbol = signature.partition("(")[0].split()[-1]
    function = cython_lapack.__pyx_capi__[symbol]
    return c_function(signature, function, **{"name": symbol} | options)


GESV = """void {0}(
    int* n, int* nrhs, inout {1} a(n, n), int* lda = n, out int ipiv[n],
    inout {1} b(n, nrhs), int* ldb = n, status int* info
)"""
SINGULAR = "the matrix is singular"
gesv = {
    "float64": lapack(GESV.format("dgesv", "double"), status=SINGULAR),
    "complex128": lapack(
        GESV.format("zgesv", "double _Complex"), status=SINGULAR
    ),
}
gtsv = lapack(
    """void dgtsv(
        int* n, int* nrhs, inout double dl[n-1], inout double d[n],
        inout double du[n-1], inout double b(n, nrhs), int* ldb = n,
        status int* info
    )""",
    status="nan",
)
syevd = lapack(
    """void dsyevd(
        char* jobz = 'V', char* uplo = 'L', int* n, inout double a(n, n),
        int* lda = max(1, n), out double w[n],
        scratch double work[1 + 6*n + 2*n*n], int* lwork = 1 + 6*n + 2*n*n,
        scratch int iwork[3 + 5*n], int* liwork = 3 + 5*n, status int* info
    )""",
    status={1: "no convergence"},
)


def normal(*shape, dtype="float64"):
    x = RNG.standard_normal(shape)
    return x + 1j * RNG.standard_normal(shape) if dtype[0] == "c" else x


def solve_jvp(primals, tangents):
    (a, b), (da, db) = primals, tangents
    x = solve(a, b)
    return x, solve(a, db - da @ x)


def solve_transpose(ct, a, b):
    return solve(a.mT, ct)


# Without the factors and pivots, which nobody asks for.
solve = lapack(
    GESV.format("dgesv", "double")
    .replace("inout double a", "in double a")
    .replace("out int", "scratch int"),
    name="solve",
    jvp=solve_jvp,
    linear="b",
    transpose=solve_transpose,
)


# --- LAPACK -------------------------------------------------------------------


@pytest.mark.parametrize("dtype", gesv)
def test_gesv(dtype):
    solve = gesv[dtype]
    a, b = normal(3, 4, 4, dtype=dtype), normal(3, 4, 2, dtype=dtype)
    want = np.linalg.solve(a, b)
    lu, pivots, x = jax.jit(solve)(a, b)
    np.testing.assert_allclose(x, want, rtol=1e-10)
    for i in range(3):
        want_lu, want_pivots = scipy.linalg.lu_factor(a[i])
        np.testing.assert_allclose(lu[i], want_lu, rtol=1e-10)
        np.testing.assert_array_equal(pivots[i], want_pivots + 1)
    over_b = jax.vmap(solve, in_axes=(None, 2), out_axes=(0, 0, 2))
    b = normal(4, 2, 3, dtype=dtype)
    x = over_b(a[0], b)[2]
    np.testing.assert_allclose(
        x, np.linalg.solve(a[0], b.reshape(4, 6)).reshape(4, 2, 3), rtol=1e-10
    )


def test_the_operand_of_an_in_out_parameter_stays():
    a, b = jnp.array(normal(4, 4)), jnp.array(normal(4, 1))
    copies = np.array(a), np.array(b)
    for run in (gesv["float64"], jax.jit(gesv["float64"]), solve):
        jax.block_until_ready(run(a, b))
        np.testing.assert_array_equal(a, copies[0])
        np.testing.assert_array_equal(b, copies[1])


def test_gtsv():
    dl, d, du, b = normal(3, 4), normal(3, 5) + 4, normal(3, 4), normal(3, 5, 2)
    x = gtsv(dl, d, du, b)[3]
    for i in range(3):
        a = np.diag(d[i]) + np.diag(dl[i], -1) + np.diag(du[i], 1)
        np.testing.assert_allclose(a @ x[i], b[i], rtol=1e-9, atol=1e-12)
    said = r"dgtsv.*: operand dl: expected axis -1 of size n-1 = 4, got 3"
    with pytest.raises(ValueError, match=said):
        gtsv(dl[:, 1:], d, du[:, 1:], b)


def test_syevd():
    a = normal(2, 5, 5)
    a += a.swapaxes(1, 2)
    vectors, w = syevd(a)
    np.testing.assert_allclose(w, np.linalg.eigvalsh(a), rtol=1e-10)
    np.testing.assert_allclose(
        a @ vectors, vectors * w[:, None], rtol=1e-9, atol=1e-9
    )


def test_a_result_whose_size_is_computed():
    getrf = lapack(
        """subroutine dgetrf(
            integer m, integer n, inout double precision a(m, n),
            integer lda = max(1, m), out integer ipiv(min(m, n)),
            status integer info
        )"""
    )
    a = normal(2, 4, 3)
    lu, pivots = getrf(a)
    for i in range(2):
        want_lu, want_pivots = scipy.linalg.lu_factor(a[i])
        np.testing.assert_allclose(lu[i], want_lu, rtol=1e-10)
        np.testing.assert_array_equal(pivots[i], want_pivots + 1)


def test_what_a_status_means():
    a, b = np.stack([np.eye(2), np.zeros((2, 2))]), np.ones((2, 2, 1))
    said = "dgesv: status: expected 0, got 1 for row 1: the matrix is singular"
    with pytest.raises(jax.errors.JaxRuntimeError, match=said):
        jax.block_until_ready(gesv["float64"](a, b))
    # Of the rows of a batch, one says that it failed by NaN.
    d = np.array([[1.0, 2.0], [0.0, 0.0]])
    zero = np.zeros((2, 1))
    *_, x = gtsv(zero, d, zero, b)
    np.testing.assert_array_equal(x[0, :, 0], [1, 0.5])
    assert np.isnan(x[1]).all()


def test_constants_by_reference():
    axpy = c_function(
        """void daxpy(int* n, double* a = 2.5, const double x[n], int* incx = 1,
                      inout double y[n], int* incy = 1)""",
        cython_blas.__pyx_capi__["daxpy"],
        name="daxpy",
    )
    x, y = normal(3, 4), normal(3, 4)
    np.testing.assert_allclose(axpy(x, y), 2.5 * x + y)


def test_a_program_with_arrays_of_other_sizes():
    """As one that another process exported may be."""
    call = jax.ffi.ffi_call(
        "xla_ffi_kit.c_function.solve", jax.ShapeDtypeStruct((4, 1), float)
    )
    said = "solve: operand b: expected axis -2 of size n = 3, got 4"
    with pytest.raises(jax.errors.JaxRuntimeError, match=said):
        jax.block_until_ready(call(jnp.eye(3), jnp.ones((4, 1))))


@pytest.mark.parametrize("kind", ["Auto", "Explicit"])
def test_devices_solve_their_rows(kind):
    mesh = mesh_of(kind, (4,), ("x",))
    a, b = normal(8, 3, 3), normal(8, 3, 1)
    a += a.swapaxes(1, 2)
    rows = on(mesh, a, "x")
    with jax.set_mesh(mesh):
        x = jax.jit(solve)(rows, on(mesh, b, "x"))
        _, w = jax.jit(syevd)(rows)
        assert not collectives(solve, rows, on(mesh, b, "x"))
    for y in (x, w):
        assert y.sharding.spec[0] == "x" and len(y.addressable_shards) == 4
    np.testing.assert_allclose(x, np.linalg.solve(a, b), rtol=1e-8)
    np.testing.assert_allclose(w, np.linalg.eigvalsh(a), rtol=1e-8)


def test_contract_of_lapack():
    solve = gesv["complex128"]
    a, b = normal(3, 3, dtype="c"), normal(3, 2, dtype="c")

    def host(a, b):
        lu, pivots = scipy.linalg.lu_factor(a)
        x = np.linalg.solve(a, b)
        return lu, (pivots + 1).astype(np.int32), x

    report = check_op(solve, [Case(a, b)], host=host)
    passed = {row.check for row in report.rows if row.status == "passed"}
    assert {"host function", "memory of results", "vmap"} <= passed


def test_derivatives_by_the_operation_itself():
    a, b = normal(2, 3, 3), normal(2, 3, 1)
    check_op(solve, [Case(a, b)], host=np.linalg.solve)
    for derivative in (jax.jacfwd, jax.jacrev, jax.hessian):
        got = derivative(solve, (0, 1))(a, b)
        want = derivative(jnp.linalg.solve, (0, 1))(a, b)
        jax.tree.map(
            functools.partial(np.testing.assert_allclose, atol=1e-8), got, want
        )


# --- Functions of a library of one's own --------------------------------------

LIBRARY = r"""
#include <complex.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

/* As ERFA: rotate a matrix about the x-axis. */
void rx(double phi, double r[3][3]) {
  double s = sin(phi), c = cos(phi);
  for (int j = 0; j < 3; ++j) {
    double y = c * r[1][j] + s * r[2][j], z = c * r[2][j] - s * r[1][j];
    r[1][j] = y;
    r[2][j] = z;
  }
}
void pxp(const double a[3], const double b[3], double axb[3]) {
  for (int i = 0; i < 3; ++i)
    axb[i] = a[(i + 1) % 3] * b[(i + 2) % 3] - a[(i + 2) % 3] * b[(i + 1) % 3];
}
void scale(double x[], int64_t n) {
  for (int64_t i = 0; i < n; ++i) x[i] *= 2;
}
/* It overwrites what it adds up. */
void drain(double x[], int64_t n, double *sum) {
  *sum = 0;
  for (int64_t i = 0; i < n; ++i) *sum += x[i], x[i] = 0;
}
/* As spglib: a number that is no status, and text. */
int count(const double *x, double above, const char *how, int n, double *most) {
  int found = 0;
  *most = -INFINITY;
  for (int i = 0; i < n; ++i) {
    double v = strcmp(how, "abs") ? x[i] : fabs(x[i]);
    found += v > above;
    *most = fmax(*most, v);
  }
  return found;
}
double _Complex turn(double _Complex z, float _Complex w, double by) {
  return z * cexp(I * by) + w;
}
/* More parameters than registers; one in every way. */
double many(double a, int b, float c, char d, int64_t e, const float *f,
            double g, double h, double i, double j, double k, double l,
            double m, uint8_t n, int o, int p, int q, int r) {
  return a + b + c + (d == 'x') + e + f[0] + f[1] + g + h + i + j + k + l + m +
         n + o + p + q + r;
}
/* It leaves its second result as it is. */
void forgets(const double *x, double *y, double *z) { *y = *x; }
int64_t negative(const double *x, double *y) { *y = *x; return -3; }
"""


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    """Makes operations of the functions of LIBRARY."""
    folder = tmp_path_factory.mktemp("own")
    source, path = folder / "own.c", folder / "libown.so"
    source.write_text(LIBRARY)
    command = [*compiler.find().command, "-x", "c", "-shared", "-fPIC", "-O1"]
    subprocess.run([*command, source, "-o", path, "-lm"], check=True)

    def make(signature, **options):
        symbol = signature.partition("(")[0].split()[-1]
        return c_function(signature, library=path, symbol=symbol, **options)

    return make


def test_an_array_that_is_overwritten(own):
    rx = own("void rx(double phi, inout double r[3][3])")
    phi, r = normal(4), normal(4, 3, 3)
    zero, one = np.zeros(4), np.ones(4)
    turn = np.array(
        [
            [one, zero, zero],
            [zero, np.cos(phi), np.sin(phi)],
            [zero, -np.sin(phi), np.cos(phi)],
        ]
    ).transpose(2, 0, 1)
    np.testing.assert_allclose(rx(phi, r), turn @ r, rtol=1e-12)
    check_op(rx, [Case(phi, r)], host=lambda phi, r: np.array(rx(phi, r)))


def test_an_operand_that_is_overwritten_is_copied(own):
    signature = "void drain(in double x[n], int64_t n, out double* sum)"
    x = jnp.arange(12.0).reshape(3, 4)
    np.testing.assert_array_equal(own(signature)(x), x.sum(1))
    np.testing.assert_array_equal(x, np.arange(12.0).reshape(3, 4))


def test_arrays_of_given_sizes(own):
    pxp = own(
        "void pxp(const double a[3], const double b[3], out double axb[3])"
    )
    a, b = normal(5, 3), normal(5, 3)
    np.testing.assert_allclose(pxp(a, b), np.cross(a, b), rtol=1e-12)
    with pytest.raises(ValueError, match="axis -1 of size 3"):
        pxp(a[:, :2], b[:, :2])


def test_a_donated_operand_is_overwritten(own):
    scale = own("void scale(inout double x[n], int64_t n)", aliases={"x": "x"})
    x = jnp.arange(1024.0)
    assert "output_operand_alias" in jax.jit(scale).lower(x).as_text()
    address = x.unsafe_buffer_pointer()
    y = jax.jit(scale, donate_argnums=0)(x)
    assert y.unsafe_buffer_pointer() == address
    np.testing.assert_array_equal(y, 2 * np.arange(1024.0))


def test_an_integer_that_is_a_count(own):
    signature = (
        "out int count(const double x[k], double above, const char* how = {}, "
        "int n = k, out double* most)"
    )
    x = np.array([[1.0, -5, 3], [0, 0, 1]])
    plain = own(signature.format('"plain"'), name="count")
    found, most = plain(x, np.array([0.5, 2]))
    assert found.tolist() == [2, 0] and most.tolist() == [3, 1]
    of_abs = own(signature.format('"abs"'), name="count_of_abs")
    found, most = of_abs(x, np.array([0.5, 2]))
    assert found.tolist() == [3, 0] and most.tolist() == [5, 1]
    status = own(signature.format('"abs"').removeprefix("out "), name="status")
    with pytest.raises(jax.errors.JaxRuntimeError, match="expected 0, got 3"):
        jax.block_until_ready(status(x, np.array([0.5, 2])))


def test_a_negative_status(own):
    negative = own(
        "int64_t negative(const double* x, out double* y)", axes="()->()"
    )
    with pytest.raises(jax.errors.JaxRuntimeError, match="got -3 for row 0"):
        jax.block_until_ready(negative(1.0))


def test_complex_numbers_by_value(own):
    turn = own(
        "double _Complex turn(double complex z, std::complex<float> w, "
        "double by)"
    )
    z, w = normal(5, dtype="c"), normal(5, dtype="c").astype(np.complex64)
    by = normal(5)
    np.testing.assert_allclose(
        turn(z, w, by), z * np.exp(1j * by) + w, rtol=1e-12
    )


@pytest.mark.parametrize("thread_safe", [True, False])
def test_what_a_function_throws_is_the_calls_error(tmp_path, thread_safe):
    source, path = tmp_path / "throws.cc", tmp_path / "libthrows.so"
    source.write_text(
        "#include <stdexcept>\n"
        'extern "C" double throws(double x) {\n'
        '  if (x > 4e4) throw std::range_error("too large");\n'
        "  return x;\n}\n"
    )
    command = [*compiler.find().command, "-shared", "-fPIC", source]
    subprocess.run([*command, "-o", path], check=True)
    throws = c_function(
        "double(double x)",
        library=path,
        symbol="throws",
        name=f"throws_{thread_safe}",
        thread_safe=thread_safe,
    )
    said = f"throws_{thread_safe}: too large"
    with pytest.raises(jax.errors.JaxRuntimeError, match=said):
        jax.block_until_ready(throws(jnp.arange(5e4)))
    assert throws(1.0) == 1  # and the lock is free


def test_a_size_beyond_its_type(own):
    short = own("void scale(inout double x[n], int8_t n)", name="short")
    with pytest.raises(jax.errors.JaxRuntimeError, match="its type, got 200"):
        jax.block_until_ready(short(np.ones(200)))


def test_any_number_of_parameters(own):
    numbers = ", ".join(f"double {x}" for x in "ghijklm")
    many = own(
        "double many(double a, int b, float c = 0.5, char d = 'x', int64_t e = "
        f"2*two, const float f[two], {numbers}, uint8_t n, int o = -7, int p, "
        "int q, int r = two)"
    )
    f = np.float32([3, 4])
    got = many(0.0, 1, f, *map(float, range(7)), 8, 9, 10)
    assert got == 1 + 0.5 + 1 + 4 + 7 + sum(range(7)) + 8 - 7 + 9 + 10 + 2


def test_what_a_function_does_not_write_is_nan(own):
    forgets = own(
        "void forgets(const double* x, out double* y, out double* z)",
        axes="()->(),()",
    )
    y, z = forgets(np.arange(3.0))
    assert y.tolist() == [0, 1, 2] and np.isnan(z).all()


def test_names_of_one_process(own):
    """The same is the same; another declaration is another function."""
    signature = "void scale(inout double x[n], int64_t n)"
    assert (
        own(signature, name="twice").name == own(signature, name="twice").name
    )
    with pytest.raises(ValueError, match="another signature: 'twice'"):
        own(signature.replace("x[n]", "x[n][2]"), name="twice")


def test_f2pys_functions_have_a_pointer_without_a_type():
    from scipy.linalg import lapack as f2py

    solve = c_function(
        GESV.format("dgesv", "double"), f2py.dgesv._cpointer, name="f2py.dgesv"
    )
    a, b = normal(4, 4), normal(4, 1)
    np.testing.assert_allclose(
        solve(a, b)[2], np.linalg.solve(a, b), rtol=1e-10
    )
