"""The type that a function knows of itself; mistakes_test has more of them."""

import ctypes
import ctypes.util

import numpy as np
import pytest
from numpy.ctypeslib import ndpointer

from xla_ffi_kit import c_function
from xla_ffi_kit.functions import declaration

LIBM = ctypes.util.find_library("m")
FLOATS = ctypes.POINTER(ctypes.c_float)
DOUBLES = ctypes.POINTER(ctypes.c_double)
INT, LONG, SIZE = ctypes.c_int, ctypes.c_long, ctypes.c_size_t
DOUBLE = ctypes.c_double
DOT = "double(const double* x, const double* w, int64_t n)"


# Where const and the like may stand, in C.
TO_CONST = (
    *("const double* p", "double const* p", "const double *const p"),
    *("double const * const restrict p", "const volatile double*__restrict p"),
    *("volatile const double* volatile p", "const double*", "double const*"),
)
TO_OTHERS = (
    *("double* p", "double* const p", "double *restrict const p", "double*"),
    *(
        "volatile double* const volatile p",
        "double*const",
        "double* __restrict",
    ),
)


def function_of(restype, *argtypes):
    """A function of a library, of which ctypes knows only what is said."""
    function = ctypes.CDLL(LIBM)["cos"]
    function.restype, function.argtypes = restype, argtypes
    return function


# What ctypes knows, and a signature that agrees.
AGREE = [
    ((DOUBLE, DOUBLES, DOUBLES, LONG), DOT),
    ((DOUBLE, ctypes.c_void_p, DOUBLES, LONG), DOT),
    ((DOUBLE, ndpointer(np.float64), DOUBLE * 3, LONG), DOT),
    ((DOUBLE, ndpointer(), ndpointer(ndim=1), ctypes.c_int64), DOT),
    (
        (None, FLOATS, FLOATS, SIZE),
        "void(const float* x, out float* y, size_t n)",
    ),
    ((ctypes.c_bool, ctypes.c_uint8), "bool(uint8_t)"),
]


def test_which_pointers_are_to_const():
    """Behind the star, const says that the function keeps the pointer."""
    for pointers, is_const in ((TO_CONST, True), (TO_OTHERS, False)):
        for pointer in pointers:
            text = f"double(double x, {pointer})"
            _, found = declaration.parse("f", text).parameters
            assert found.type.is_pointer, pointer
            assert found.type.is_const == is_const, pointer


def test_a_subroutine_has_types_of_fortran():
    fortran = """SUBROUTINE f_(CHARACTER uplo = 'U', integer n, intent(in)
        double precision a(n, n), inout complex*16 z(n), real*4 x = 1.5,
        intent(inout) complex c(n), scratch logical bwork(2*n), status integer
        info)"""
    c = """void f_(char* uplo = 'U', int* n, const double a(n, n), inout double
        _Complex z(n), float* x = 1.5, inout float _Complex c(n), scratch int
        bwork(2*n), status int* info)"""
    assert declaration.parse("f", fortran) == declaration.parse("f", c)


@pytest.mark.parametrize(("types", "signature"), AGREE)
def test_types_of_ctypes_that_agree(types, signature):
    name = f"agrees{AGREE.index((types, signature))}"
    assert c_function(signature, function_of(*types), name=name).name == name


def test_types_of_a_prototype_that_differ():
    prototype = ctypes.CFUNCTYPE(ctypes.c_float, FLOATS, FLOATS, INT)
    with pytest.raises(ValueError, match=r"expected float\(float\*, float\*, "):
        c_function(DOT, prototype(lambda x, w, n: 0.0), name="f")


def test_a_restype_alone_is_compared():
    function = ctypes.CDLL(LIBM)["cbrt"]
    c_function("double(double)", function, name="unknown")  # c_int: assumed
    function.restype = DOUBLE
    c_function("double(double)", function, name="known")
    with pytest.raises(
        ValueError,
        match=r"expected double\(\.\.\.\), which the function says itself, got "
        r"float\(double\)",
    ):
        c_function("float(double)", function, name="f")
