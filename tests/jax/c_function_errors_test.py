"""What `c_function` refuses, each with a sentence."""

import ctypes
import ctypes.util
import re

import numpy as np
import pytest
from scipy.special import cython_special

from xla_ffi_kit import c_function

LIBM = ctypes.util.find_library("m")
CAPSULES = cython_special.__pyx_capi__
ATAN2 = ctypes.CDLL(LIBM).atan2
ATAN2.argtypes = [ctypes.c_double, ctypes.c_double]
ATAN2.restype = ctypes.c_double
cos = c_function("double(double x)", library=LIBM, symbol="cos")

ERRORS = {
    "a type that is not known": (
        {"signature": "double(complex, double)", "function": ATAN2},
        "c_function: signature: expected C's numbers (double, float, bool, "
        "int, long, size_t, int32_t and the like), got 'complex' in "
        "'double(complex, double)'",
    ),
    "a long double": (
        {"signature": "double(long double x)", "function": ATAN2},
        "got 'long double' in",
    ),
    "no function": (
        {"signature": "double", "function": ATAN2},
        "signature: expected a C function's type, such as 'double(double, "
        "int)', got no ( in 'double'",
    ),
    "two names": (
        {"signature": "double(double x y)", "function": ATAN2},
        "expected a type and at most one name, got 'y'",
    ),
    "a pointer to pointers": (
        {"signature": "double(double** x)", "function": ATAN2},
        "expected pointers to numbers, got a pointer to pointers",
    ),
    "a pointer that is returned": (
        {"signature": "double*(double)", "function": ATAN2},
        "expected a number or void before (, got a pointer",
    ),
    "no result": (
        {
            "signature": "void(const double* x, int64_t n)",
            "function": 1,
            "name": "f",
        },
        "signature: expected a type before (, or a pointer that "
        "is not const, got no result in void(const double* x, int64_t n)",
    ),
    "no operand": (
        {"signature": "double(void)", "function": 1, "name": "f"},
        "expected at least one operand, got none in double(void)",
    ),
    "too many": (
        {
            "signature": f"int({', '.join(7 * ['int'])})",
            "function": 1,
            "name": "f",
        },
        "expected at most 6 integers and pointers and 8 floats, which "
        "registers pass (an array takes one pointer), got 7 and 0",
    ),
    "no sizes": (
        {
            "signature": "void(const double* x, double* y)",
            "function": 1,
            "name": "f",
        },
        "axes: expected those of each operand and result, such as "
        "'(3),(3)->()', or a parameter int64_t n, the length of all rows, got "
        "none in void(const double* x, double* y)",
    ),
    "the axes of another number of operands": (
        {
            "signature": "void(const double* x, double* y)",
            "function": 1,
            "name": "f",
            "axes": "(n),(n)->(n)",
        },
        "axes: expected those of 1 operands and 1 results, as void(const "
        "double* x, double* y), got (n),(n)->(n)",
    ),
    "a size that no operand has": (
        {
            "signature": "void(const double* x, double* y)",
            "function": 1,
            "name": "f",
            "axes": "(n)->(m)",
        },
        "axes: expected a reference, or axes of results that operands have, "
        "got m in (n)->(m)",
    ),
    "axes of a number": (
        {
            "signature": "double(double)",
            "function": 1,
            "name": "f",
            "axes": "(n)->()",
        },
        "axes: expected () for a number and at most 4 for a pointer, got (n)",
    ),
    "a library that is not there": (
        {"signature": "double(double)", "library": "libno.so", "symbol": "f"},
        "library: expected a shared library that the dynamic linker finds, "
        "got 'libno.so': libno.so: cannot open shared object file: No such "
        "file or directory; pass its path, or what ctypes.util.find_library "
        "says",
    ),
    "a symbol that is not there": (
        {"signature": "double(double)", "library": LIBM, "symbol": "cosine"},
        f"symbol: expected a function that {LIBM} exports, got 'cosine'; in "
        'C++ declare it extern "C"',
    ),
    "a symbol without a library": (
        {"signature": "double(double)", "function": ATAN2, "symbol": "cos"},
        "symbol: expected none without library=, got 'cos'",
    ),
    "nothing": (
        {"signature": "double(double)"},
        "function, library: expected one of them, got neither",
    ),
    "something else": (
        {"signature": "double(double)", "function": np.cos},
        "function: expected an address, a function pointer of ctypes or cffi, "
        "a capsule of Cython or a cfunc of numba, or library= and symbol=, got "
        "<ufunc 'cos'>",
    ),
    "null": (
        {"signature": "double(double)", "function": 0},
        "function: expected an address, got 0",
    ),
    "a capsule of another type": (
        {
            "signature": "double(double, int)",
            "function": CAPSULES["__pyx_fuse_1xlogy"],
        },
        "signature: expected double(double, double), which the function says "
        "itself, got double(double, int)",
    ),
    "a capsule of complex numbers": (
        {
            "signature": "double(double, double)",
            "function": CAPSULES["__pyx_fuse_0xlogy"],
        },
        "function: the capsule's name: expected C's numbers",
    ),
    "a pointer of another type": (
        {"signature": "double(double)", "function": ATAN2},
        "signature: expected double(double, double), which the function says "
        "itself, got double(double)",
    ),
    "a name that another function has": (
        {
            "signature": "double(double)",
            "library": LIBM,
            "symbol": "tan",
            "name": "cos",
        },
        "cos: name: expected one of its own, got that of another C function "
        "of this process: 'cos'; give it another one, name=...",
    ),
    "a function without a name": (
        {
            "signature": "double(double)",
            "function": ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(abs),
        },
        "name: expected one, as nothing tells that of",
    ),
    "an attribute": (
        {
            "signature": "double(double)",
            "library": LIBM,
            "symbol": "cos",
            "attributes": {"k": np.int64},
        },
        "attributes: expected none, as a C function has only operands: a "
        "number is one, got {'k': <class 'numpy.int64'>}",
    ),
    **{
        f"the option {option}": (
            {
                "signature": "double(double)",
                "library": LIBM,
                "symbol": "cos",
                option: "f32",
            },
            f"cos: {option}: expected {expected}, got 'f32'",
        )
        for option, expected in (
            ("dtype", "none, as the signature says them"),
            ("dtypes", "none, as the signature says them"),
            ("results", "none, as the signature says them"),
            ("kernel_axes", "axes= instead, such as axes='(m,n),(n)->(m)'"),
            ("libraries", "library= instead, with symbol="),
        )
    },
}


@pytest.mark.parametrize("case", ERRORS)
def test_what_is_refused(case):
    given, why = ERRORS[case]
    with pytest.raises((TypeError, ValueError), match=re.escape(why)):
        c_function(**given)


def test_another_dtype_is_refused():
    with pytest.raises(
        TypeError,
        match="cos: operand x: expected dtype float64, got float32; JAX has "
        "no float64 unless jax_enable_x64 is set",
    ):
        cos(np.float32(1))
    with pytest.raises(
        TypeError, match="results of the reference: expected float64"
    ):
        c_function("double(float)", 1, name="wide", reference=lambda x: x)(
            np.float32(1)
        )
