"""C functions of others as operations."""

import ctypes
import ctypes.util
import importlib.util
import os
import re
import shutil
import warnings

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special
from common import failure_of, run_python
from inline_data import close
from scipy.linalg import cython_blas, cython_lapack
from scipy.special import cython_special

from xla_ffi_kit import c_function, export_checks, use_reference
from xla_ffi_kit.functions import numba_identity
from xla_ffi_kit.testing import Case, check_op

jax.config.update("jax_enable_x64", True)

LIBM = ctypes.util.find_library("m")
CAPSULES = cython_special.__pyx_capi__
X = np.array([[0.5, 1.5, 2.5], [3.0, 4.5, 0.25]])
F32 = X.astype(np.float32)
N = np.int32([[0, 1, 2], [3, 4, 5]])
with_numba = pytest.mark.skipif(
    importlib.util.find_spec("numba") is None, reason="needs numba"
)

cos = c_function(
    "double(double)",
    library=LIBM,
    symbol="cos",
    jvp=lambda primals, tangents: (cos(*primals), -sin(*primals) * tangents[0]),
)
sin = c_function(
    "double(double x)",
    library=LIBM,
    symbol="sin",
    jvp=lambda primals, tangents: (sin(*primals), cos(*primals) * tangents[0]),
)
frexp = c_function(
    "double(double x, out int* e)",
    library=LIBM,
    symbol="frexp",
    axes="()->(),()",
)


def from_libm(signature, symbol, **options):
    return c_function(signature, library=LIBM, symbol=symbol, **options)


def from_cython(signature, key):
    return c_function(signature, CAPSULES[f"__pyx_fuse_1{key}"], name=key)


def from_lapack(signature, key):
    function = cython_lapack.__pyx_capi__[key]
    return c_function(signature, function, name=key, axes="(),()->()")


def pointer_of(symbol, *types):
    function = ctypes.CDLL(LIBM)[symbol]
    function.restype, *function.argtypes = types
    return function


# --- Values -------------------------------------------------------------------

# c_function_calls_test has numbers of every type, in every order.
VALUES = {
    "double of a name": (cos, [X], np.cos(X)),
    "two results": (frexp, [X], np.frexp(X)),
    "an int and a double": (
        from_libm("  double jn( int n ,\n double x ) ; ", "jn"),
        [N, X],
        scipy.special.jv(N, X),
    ),
    "a float and an int": (
        from_libm("float(float, int)", "ldexpf"),
        [F32, N],
        np.ldexp(F32, N),
    ),
    "Cython's long and double": (
        from_cython("double(long n, double x)", "expn"),
        [np.int64(N), X],
        scipy.special.expn(N, X),
    ),
    "LAPACK's doubles": (
        from_lapack("double(const double* x, const double* y)", "dlapy2"),
        [X, X[::-1]],
        np.hypot(X, X[::-1]),
    ),
    "LAPACK's floats": (
        from_lapack("float(const float* x, const float* y)", "slapy2"),
        [F32, F32[::-1]],
        np.hypot(F32, F32[::-1]),
    ),
    "a pointer of ctypes": (
        c_function(
            "double(double, double)",
            pointer_of("atan2", *3 * [ctypes.c_double]),
        ),
        [X, X[::-1]],
        np.arctan2(X, X[::-1]),
    ),
    "an address": (
        c_function(
            "double(double)",
            ctypes.cast(
                pointer_of("cbrt", ctypes.c_double, ctypes.c_double),
                ctypes.c_void_p,
            ).value,
            name="cbrt",
        ),
        [X],
        np.cbrt(X),
    ),
}


@pytest.mark.parametrize("case", VALUES)
def test_values(case):
    op, operands, want = VALUES[case]
    tolerance = 1e-6 if operands[0].dtype == np.float32 else 1e-10
    close(jax.jit(op)(*operands), want, tolerance)


# --- Rows ---------------------------------------------------------------------

DOUBLES = ctypes.POINTER(ctypes.c_double)
INT = ctypes.c_int64


def python_gemv(a, x, y, m, n):
    for i in range(m):
        y[i] = sum(a[i * n + j] * x[j] for j in range(n))


def python_log(x, y, n):
    for i in range(n):
        if x[i] <= 0:
            return 7
        y[i] = np.log(x[i])
    return 0


gemv = c_function(
    "void(const double* a, const double* x, out double* y, int64_t m, long n)",
    ctypes.CFUNCTYPE(None, DOUBLES, DOUBLES, DOUBLES, INT, INT)(python_gemv),
    name="gemv",
    axes="(m,n),(n)->(m)",
)
log = c_function(
    "int f(const double* x, out double* y, int64_t n)",
    ctypes.CFUNCTYPE(ctypes.c_int, DOUBLES, DOUBLES, INT)(python_log),
    name="log",
    reference=jnp.log,
)


def test_rows_of_blas():
    ddot = c_function(
        "double(const int* n, const double* x, const int* incx, "
        "const double* y, const int* incy)",
        cython_blas.__pyx_capi__["ddot"],
        name="ddot",
        axes="(),(k),(),(k),()->()",
        shared=("n", "incx", "incy"),
    )
    got = ddot(3, X, 1, X[::-1], 1)
    np.testing.assert_allclose(got, (X * X[::-1]).sum(-1))


def test_explain_names_the_function_and_its_library():
    def told(op):
        return op.explain().splitlines()[2].partition("  cpu")[2].strip()

    library = os.path.basename(LIBM)
    assert told(frexp) == (
        f"the C function frexp of {library}, double(double x, out int* e)"
    )
    # One of the few functions of libm with one name.
    pointer = pointer_of("significand", *2 * [ctypes.c_double])
    for function in (pointer, ctypes.cast(pointer, ctypes.c_void_p).value):
        op = c_function("double(double)", function, name="its_own_name")
        want = f"the C function significand of {library}, double(double)"
        assert told(op) == want
    file = os.path.basename(cython_special.__file__)
    op = from_cython("double(double, double)", "xlogy")
    assert f" of {file}, double(" in told(op)


def test_rows_and_the_sizes_of_their_axes():
    a = np.arange(24.0).reshape(2, 3, 4)
    x = np.arange(8.0).reshape(2, 4)
    want = np.einsum("bmn,bn->bm", a, x)
    np.testing.assert_array_equal(gemv(a, x), want)
    np.testing.assert_array_equal(jax.vmap(gemv)(a, x), want)
    np.testing.assert_array_equal(gemv(a[1], x[1]), want[1])
    assert gemv(a[:0], x[:0]).shape == (0, 3)
    with pytest.raises(ValueError, match="axis -1 of size 4, n as operand a"):
        gemv(a[0], x[0, :3])


def test_a_status_is_the_calls_error():
    np.testing.assert_array_equal(log(X), np.log(X))
    with pytest.raises(
        jax.errors.JaxRuntimeError,
        match="log: status: expected 0, got 7 for row 1",
    ):
        jax.block_until_ready(log(np.float64([[1, 2], [3, 0], [1, 1]])))


def test_a_library_that_was_replaced_runs_its_old_code(tmp_path):
    with open("/proc/self/maps") as maps:
        libm = next(line.split()[-1] for line in maps if "/libm." in line)
    path = tmp_path / "libown.so"

    def make(name):
        return c_function(
            "double(double)", library=path, symbol="cbrt", name=name
        )

    shutil.copy(libm, path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make("first"), make("second")
    path.unlink()
    shutil.copy(libm, path)
    said = (
        f"third: library: {path} has changed since this process loaded it, and "
        "the old code runs; restart the process, or give the new library "
        "another file name"
    )
    with pytest.warns(UserWarning, match=re.escape(said)) as caught:
        make("third")
    assert caught[0].filename == __file__


# --- numba --------------------------------------------------------------------


def numba_hypot(scale=1.0):
    import numba

    @numba.cfunc("float64(float64, float64)")
    def hypotenuse(a, b):
        return scale * np.sqrt(a * a + b * b)

    return hypotenuse


@with_numba
def test_a_cfunc():
    hypot = c_function("double(double, double)", numba_hypot())
    np.testing.assert_allclose(hypot(X, X), np.hypot(X, X))
    # Compiled again it is the same; another function has another name.
    name = {"name": "hypotenuse"}
    again = c_function("double(double, double)", numba_hypot(), **name)
    np.testing.assert_allclose(again(X, X), np.hypot(X, X))
    twice = c_function("double(double, double)", numba_hypot(2.0))
    np.testing.assert_allclose(twice(X, X), 2 * np.hypot(X, X))
    assert hypot.name == twice.name == "hypotenuse"
    with pytest.raises(
        ValueError,
        match=r"signature: expected double\(double, double\), which the "
        r"function says itself, got double\(float, double\)",
    ):
        c_function("double(float, double)", numba_hypot())


# --- What overwrites its operand ----------------------------------------------


def test_a_function_that_reads_its_result_is_caught():
    """By its memory: there is nothing to compare with."""
    daxpy = c_function(
        "void(const int* n, const double* a, const double* x, const int* incx, "
        "out double* y, const int* incy)",
        cython_blas.__pyx_capi__["daxpy"],
        name="daxpy",
        axes="(),(),(k),(),()->(k)",
        shared=("n", "incx", "incy"),
    )
    one = np.int32(1)
    case = Case(np.int32(3), "float64[]", "float64[3]", one, one)
    message = failure_of(daxpy, case, "memory of operands").message
    assert "before it writes" in message


# --- numba cfuncs that are declared anew --------------------------------------


def half(x):
    return x / 2


@with_numba
def test_cfuncs_declared_anew():
    """With other types, and other options of numba's."""
    import numba
    from numba import types

    for dtype, name in (("float64", "double"), ("float32", "float")):
        halved = numba.cfunc(f"{dtype}({dtype})")(half)
        got = c_function(f"{name}({name})", halved)(X.astype(dtype))
        np.testing.assert_array_equal(got, X.astype(dtype) / 2)
    identity = numba_identity.of_cfunc
    plain = numba.cfunc("float64(float64)")(half)
    assert identity(plain) == identity(numba.cfunc("float64(float64)")(half))
    fast = numba.cfunc("float64(float64)", fastmath=True)(half)
    narrow = numba.cfunc("float64(float64)", locals={"x": types.float32})(half)
    assert len(set(map(identity, (plain, fast, narrow)))) == 3
    # That of a function it calls, which takes given types.
    called = [numba.njit(f"{t}({t})")(half) for t in ("float32", "float64")]
    assert len(set(map(numba_identity.digest, called))) == 2


# --- The contract -------------------------------------------------------------

CHECKED = {
    "numbers": (cos, [Case("float64[2,3]")], np.cos),
    "numbers of two types": (
        VALUES["a float and an int"][0],
        [Case(F32, N)],
        np.ldexp,
    ),
    "rows": (gemv, [Case("float64[2,3]", "float64[3]")], np.matmul),
    "a reference": (
        from_libm("double(double)", "atan", reference=jnp.arctan),
        [Case(X)],
        None,
    ),
}


@pytest.mark.parametrize("case", CHECKED)
def test_contract(case):
    op, cases, host = CHECKED[case]
    report = check_op(op, cases, host=host)
    passed = {row.check for row in report.rows if row.status == "passed"}
    assert {"values", "vmap"} <= passed
    if op.reference is None:
        assert {"host function", "memory of results"} <= passed
    if case in ("numbers", "a reference"):  # others have no derivative
        assert {"auto mesh", "explicit mesh", "export"} <= passed
        assert {"grad", "second order"} <= passed


@pytest.mark.parametrize("kind", ["Auto", "Explicit"])
def test_devices_compute_their_rows(kind):
    jn, _, _ = VALUES["an int and a double"]
    axis = (getattr(jax.sharding.AxisType, kind),)
    mesh = jax.make_mesh((4,), ("rows",), axis_types=axis)
    spec = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("rows"))
    a = jax.device_put(np.arange(96.0).reshape(8, 3, 4), spec)
    x = jax.device_put(np.arange(32.0).reshape(8, 4), spec)
    for op, operands in ((gemv, (a, x)), (jn, (jnp.int32(x), x))):
        with jax.set_mesh(mesh):
            got = jax.jit(op)(*operands)
        assert got.sharding.is_equivalent_to(spec, got.ndim)
        want = op(*map(np.asarray, operands))
        np.testing.assert_array_equal(got, want)


def test_the_reference_runs_where_it_is_chosen():
    bad = jnp.float64([[-1.0, 1.0]])
    assert np.isnan(log(bad, implementation="reference")[0, 0])
    with use_reference("log"):
        assert np.isnan(log(bad)[0, 0])


# --- Exported programs --------------------------------------------------------

_RUN = """
import sys, jax, jax.export, numpy as np
jax.config.update("jax_enable_x64", True)
import xla_ffi_kit
if {define}:
    xla_ffi_kit.c_function("double(double x)", library={libm!r}, symbol="cos")
exported = jax.export.deserialize(bytearray(open(sys.argv[1], "rb").read()))
print(float(exported.call(np.float64([0.5]))[0]))
"""


@pytest.mark.parametrize("define", [True, False])
def test_an_exported_program_names_the_function(define, tmp_path):
    exported = jax.export.export(
        jax.jit(cos), disabled_checks=export_checks(cos)
    )(np.float64([0.5]))
    file = tmp_path / "program"
    file.write_bytes(exported.serialize())
    run = run_python(_RUN.format(define=define, libm=LIBM), file)
    if define:
        assert float(run.stdout) == np.cos(0.5), run.stderr
    else:
        assert "xla_ffi_kit.c_function.cos" in run.stderr


def test_a_derivative_that_is_missing_is_refused():
    """As docs/external_library.md says it."""

    @jax.custom_jvp
    def constant(x):
        return x

    @constant.defjvp
    def refuse(primals, tangents):
        raise NotImplementedError("no derivative with respect to y")

    def of_x(primals, tangents):
        (x, y), (dx, _) = primals, tangents
        return power(x, y), y * power(x, y - 1) * dx

    power = c_function(
        "float(float x, float y)",
        library=LIBM,
        symbol="powf",
        name="power",
        jvp=of_x,
    )

    def op(x, y):
        return power(x, constant(y))

    for wrap in (lambda f: f, jax.jit):
        slope = jax.grad(wrap(op))
        assert slope(3.0, 2.0) == jax.jit(slope)(3.0, 2.0) == 6
        assert jax.grad(slope)(3.0, 2.0) == 2
        for argnums in (1, (0, 1)):
            with pytest.raises(NotImplementedError, match="respect to y"):
                jax.grad(wrap(op), argnums)(3.0, 2.0)
