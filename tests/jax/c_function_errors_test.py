"""What `c_function` refuses, each with a sentence."""

import ctypes
import ctypes.util
import re

import jax
import numpy as np
import pytest
from scipy.linalg import cython_lapack
from scipy.special import cython_special

from xla_ffi_kit import c_function

LIBM = ctypes.util.find_library("m")
CAPSULES = cython_special.__pyx_capi__
ATAN2 = ctypes.CDLL(LIBM).atan2
ATAN2.argtypes = [ctypes.c_double, ctypes.c_double]
ATAN2.restype = ctypes.c_double
cos = c_function("double(double x)", library=LIBM, symbol="cos")

OWN = {"function": 1, "name": "f"}
COS = {"library": LIBM, "symbol": "cos"}
POINTERS = "void(const double* x, double* y)"
NUMBER = "double(double)"
# Of a function with a name, and below it what is said.
SIGNATURES = """
double(long double x)
    f: signature: expected C's numbers (double, float, bool, int, long, size_t,
    int32_t and the like), got 'long double' in 'double(long double x)'
double
    signature: expected a C function's type, such as 'double(double, int)', got
    no ( in 'double'
double(double x y)
    expected a type and at most one name, got 'y'
double(double** x)
    expected pointers to numbers, got a pointer to pointers
double*(double)
    expected a number or void before (, got a pointer
void(const double* x, int64_t n)
    signature: expected a type before (, or a pointer that is not const, got no
    result in void(const double* x, int64_t n)
double(double complex x)
    expected real numbers, as complex ones are not supported, got
    'double complex x' in 'double(double complex x)'
float _Complex(float)
    expected real numbers, as complex ones are not supported, got
    'float _Complex'
double(const double x[], double w[3], int64_t n)
    expected a pointer for an array, const double* x, got const double x[] in
double(unsigned int[], double)
    expected a pointer for an array, unsigned int*, got unsigned int[] in
double(double* x, double* w, int64_t n)
    f: signature: expected at least one operand, got none in
    double(double* x, double* w, int64_t n); a pointer without const is a
    result: write const double* x
double(void)
    expected at least one operand, got none in double(void)
int(int, int, int, int, int, int, int)
    expected at most 6 integers and pointers and 8 floats, which registers pass
    (an array takes one pointer), got 7 and 0
void(const double* x, double* y)
    axes: expected those of each operand and result, such as '(3),(3)->()', or a
    parameter int64_t n, the length of all rows, got none in
    void(const double* x, double* y)
"""


def of_signatures():
    for block in re.split(r"\n(?! )", SIGNATURES.strip()):
        signature, *said = block.splitlines()
        yield signature, OWN, " ".join(map(str.strip, said))


# The signature, the other arguments, what is said.
ERRORS = [
    *of_signatures(),
    (
        "double(quad, double)",
        {"function": ATAN2},  # before it has a name
        "c_function: signature: expected C's numbers (double, float, bool, ",
    ),
    (
        POINTERS,
        OWN | {"axes": "(n),(n)->(n)"},
        "axes: expected those of 1 operands and 1 results, as void(const "
        "double* x, double* y), got (n),(n)->(n)",
    ),
    (
        POINTERS,
        OWN | {"axes": "(n)->(m)"},
        "axes: expected a reference, or axes of results that operands have, "
        "got m in (n)->(m)",
    ),
    (
        NUMBER,
        OWN | {"axes": "(n)->()"},
        "axes: expected () for a number and at most 4 for a pointer, got (n)",
    ),
    (
        NUMBER,
        {"library": "libno.so", "symbol": "f"},
        "library: expected a shared library that the dynamic linker finds, "
        "got 'libno.so': libno.so: cannot open shared object file: No such "
        "file or directory; pass its path, or what ctypes.util.find_library "
        "says",
    ),
    (
        NUMBER,
        COS | {"symbol": "cosine"},
        f"symbol: expected a function that {LIBM} exports, got 'cosine'; in "
        'C++ declare it extern "C"',
    ),
    *(
        (
            NUMBER,
            {"library": "libc.so.6", "symbol": symbol},
            "c_function: symbol: expected a function that libc.so.6 exports, "
            f"got {symbol!r}, which is a variable",
        )
        for symbol in ("environ", "errno")  # of the process, of a thread
    ),
    (
        NUMBER,
        {"function": ATAN2, "symbol": "cos"},
        "symbol: expected none without library=, got 'cos'",
    ),
    (NUMBER, {}, "function, library: expected one of them, got neither"),
    (
        NUMBER,
        {"function": np.cos},
        "function: expected an address, a function pointer of ctypes or cffi, "
        "a capsule of Cython or a cfunc of numba, or library= and symbol=, got "
        "<ufunc 'cos'>",
    ),
    (NUMBER, {"function": 0}, "function: expected an address, got 0"),
    (
        "double(double, int)",
        {"function": CAPSULES["__pyx_fuse_1xlogy"]},
        "signature: expected double(double, double), which the function says "
        "itself, got double(double, int)",
    ),
    (
        "double(double, double)",
        {"function": CAPSULES["__pyx_fuse_0xlogy"]},  # of complex numbers
        "function: the capsule's name: expected real numbers, as complex ones "
        "are not supported, got 'double complex'",
    ),
    (
        "double(const double* x, const float* y)",
        {"function": cython_lapack.__pyx_capi__["dlapy2"]},
        "signature: expected double(double*, double*), which the function says "
        "itself, got double(const double* x, const float* y)",
    ),
    (
        NUMBER,
        {"function": ATAN2},
        "signature: expected double(double, double), which the function says "
        "itself, got double(double)",
    ),
    (
        NUMBER,
        {"library": LIBM, "symbol": "tan", "name": "cos"},
        "cos: name: expected one of its own, got that of another C function "
        "of this process: 'cos'; give it another one, name=...",
    ),
    (
        NUMBER,
        {"function": ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(abs)},
        "name: expected one, as nothing tells that of",
    ),
    (
        NUMBER,
        COS | {"attributes": {"k": np.int64}},
        "attributes: expected none, as a C function has only operands: a "
        "number is one, got {'k': <class 'numpy.int64'>}",
    ),
    *(
        (NUMBER, COS | {o: "f32"}, f"cos: {o}: expected {said}, got 'f32'")
        for o, said in (
            ("dtype", "none, as the signature says them"),
            ("dtypes", "none, as the signature says them"),
            ("results", "none, as the signature says them"),
            ("kernel_axes", "axes= instead, such as axes='(m,n),(n)->(m)'"),
            ("libraries", "library= instead, with symbol="),
        )
    ),
]


@pytest.mark.parametrize(("signature", "given", "said"), ERRORS)
def test_what_is_refused(signature, given, said):
    with pytest.raises((TypeError, ValueError), match=re.escape(said)):
        c_function(signature, **given)


def test_another_dtype_is_refused():
    said = (
        "cos: operand x: expected dtype float64, got float32; JAX has "
        "no float64 unless jax_enable_x64 is set"
    )
    with pytest.raises(TypeError, match=said):
        cos(np.float32(1))
    said = "results of the reference: expected float64"
    with pytest.raises(TypeError, match=said):
        c_function("double(float)", 1, name="wide", reference=lambda x: x)(
            np.float32(1)
        )


@pytest.mark.parametrize(
    ("signature", "axes", "expected"),
    [
        (
            "int(const float* x, float* y, int64_t n, float a)",
            [(2, 6), ()],
            "operand a: expected batch dimensions [2] as operand x has, got []",
        ),
        (
            "int(float a, const float* x, float* y, int64_t n)",
            [(), (2, 6)],
            "operand x: expected batch dimensions [] as operand a has, got [2]",
        ),
    ],
)
def test_a_number_beside_rows_gets_a_remedy(signature, axes, expected):
    op = c_function(signature, 1, name=f"scale{len(axes[0])}")
    said = f"{expected}; broadcast a, or make the operation with shared='a'"
    with pytest.raises(ValueError, match=re.escape(said)):
        op(*(np.ones(shape, np.float32) for shape in axes))
    op = c_function(signature, 1, name=op.name, shared="a")
    y = jax.eval_shape(op, *(np.ones(shape, np.float32) for shape in axes))
    assert y.shape == (2, 6)


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
