"""`c_function` makes an operation from any C function."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping
from typing import Unpack

from xla_ffi_kit.ffi_op import FfiOp
from xla_ffi_kit.functions import declaration as declarations
from xla_ffi_kit.functions import (
    function_library,
    layout,
    numba_identity,
    pointer,
)
from xla_ffi_kit.functions import source as sources
from xla_ffi_kit.functions.declaration import Declaration
from xla_ffi_kit.functions.layout import Layout
from xla_ffi_kit.functions.pointer import Pointer
from xla_ffi_kit.functions.source import Status
from xla_ffi_kit.op import declare
from xla_ffi_kit.op.spec import Advanced, Options, Result

# Before the names of functions, in the targets of exported programs.
_TARGET = "xla_ffi_kit.c_function."
_OF_SIGNATURE = "none, as the signature says them"
# Options of `FfiOp` that it does not take, and why.
_NOT_OPTIONS = {
    "attributes": "none, as a C function has only operands: a number is one",
    "dtype": _OF_SIGNATURE,
    "dtypes": _OF_SIGNATURE,
    "kernel_axes": "axes= instead, such as axes='(m,n),(n)->(m)'",
    "libraries": "library= instead, with symbol=",
    "results": _OF_SIGNATURE,
}


def c_function(
    signature: str,
    function: object = None,
    *,
    library: object = None,
    symbol: str | None = None,
    name: str | None = None,
    reference: Callable[..., Result] | None = None,
    status: Status = None,
    thread_safe: bool = True,
    **options: Unpack[Options],
) -> FfiOp[Result]:
    """Makes an operation from a C function of numbers, or of arrays.

    The kit compiles a handler that calls the function, on CPUs.

    A function of numbers computes elementwise. All operands have one shape, and
    exactly the types of its parameters; what it returns is the result::

      jn = c_function("double(int n, double x)", library="libm.so.6",
                      symbol="jn")

    A function of arrays computes a row at a time. The declaration says the axes
    of a row, and what C does not: an array is an operand if it is `const`, and
    otherwise `in`, `out`, `inout`, `scratch` or `status`; `=` gives a parameter
    a value, and `a(m, n)` is an array in Fortran's order::

      gesv = c_function('''
          void dgesv(int* n, int* nrhs, in double a(n, n), int* lda = n,
                     scratch int ipiv[n], inout double b(n, nrhs),
                     int* ldb = n, status int* info)''',
          scipy.linalg.cython_lapack.__pyx_capi__["dgesv"], name="gesv")

    See docs/pip.md for all of it. An integer with the name of an axis is its
    size, by value or by reference. The axes of a declaration without arrays are
    those of `axes`, by default one, `n`::

      c_function("void(const double* a, const double* x, out double* y,
                 int64_t m, int64_t n)", address, name="gemv",
                 axes="(m,n),(n)->(m)")

    What the function returns is the first result; an integer beside results
    that it writes is a status unless it is declared `out int f(...)`. Results
    are NaN, or integers of all bits, before the function writes them.

    Args:
      signature: the function's type in C, with or without names, which are
        those of operands and results. Numbers are `double`, `float`, `bool`,
        `double _Complex`, and integers such as `int`, `size_t` and `int32_t`.
      function: the function: an address, a function pointer of ctypes or cffi,
        a `numba.cfunc`, or a capsule, such as of a Cython module's
        `__pyx_capi__` or f2py's `_cpointer`. If it knows its own type, that is
        compared. What it throws in C++ is the error of the call.
      library: instead of `function`, the shared library that has it: a name or
        path for the dynamic linker, or a `ctypes.CDLL`.
      symbol: the function's name in the library.
      name: the operation's name, by which an exported program finds the
        function in another process. Default: the function's own, or where it
        is in its library. Of a `numba.cfunc`, programs have a hash of the code
        too.
      reference: what the function computes, in JAX, as `FfiOp` takes it:
        `reference(*operands)`. Without one the operation runs on CPUs only,
        and has only the derivatives that you give.
      status: what a status other than 0 means, which is an error of the call: a
        text for all, or {1: "not converged", ...}. "nan": the results of such a
        row are NaN instead (integers: of all bits), and others are computed.
      thread_safe: whether several threads may call the function at the same
        time. If not, one thread of the process at a time calls one of the
        functions that are not.
      **options: other keywords of `FfiOp`: `axes`, `jvp`, `vjp`, `linear`,
        `transpose`, `shared`, `aliases`, `handlers` for other platforms,
        `advanced`.

    Raises:
      TypeError: an argument is of a wrong type.
      ValueError: the signature cannot be read or called, the library or symbol
        is missing, the function says that it has another type, or another
        function has the same name.
      BuildError: there is no compiler, or the cache cannot be written.
    """
    where = name if isinstance(name, str) and name else "c_function"
    declared = declarations.parse(f"{where}: signature", signature)
    found = _find(where, function, library, symbol)
    if found.told is not None:
        declared = _compare(where, declared, found)
    if name is None and not found.name:
        raise ValueError(
            f"{where}: name: expected one, as nothing tells that of "
            f"{function!r}, got none"
        )
    if name is not None and (not isinstance(name, str) or not name):
        raise TypeError(f"{where}: name: expected a string, got {name!r}")
    own = name or found.name
    for option, expected in _NOT_OPTIONS.items():
        if option in options:
            got = options[option]  # type: ignore[literal-required]
            raise TypeError(
                f"{own}: {option}: expected {expected}, got {got!r}"
            )
    laid_out = layout.of(
        own, declared, options.get("axes"), reference is not None
    )
    _check_status(own, laid_out, status)
    target = _TARGET + own
    if found.identity and not name:
        # Declared in another way, the same code is another function.
        identity = numba_identity.digest(
            *(found.identity, str(declared), laid_out.axes, bool(thread_safe))
        )
        target = f"{target}.{identity}"
    source = sources.of(
        own,
        target,
        laid_out,
        shared=declare.among(
            *(own, "shared", "operands"),
            options.get("shared") or (),
            laid_out.names,
        ),
        aliased=_aliased(laid_out, options.get("aliases") or {}),
        status=status,
        thread_safe=bool(thread_safe),
    )
    handlers = function_library.load(
        source,
        target,
        [found],
        told=f"{found.report()}, {declared}",
    )
    given = options.copy()
    given["axes"] = laid_out.axes
    given["handlers"] = {**(options.get("handlers") or {}), "cpu": target}
    given["libraries"] = handlers
    given["advanced"] = _with_layouts(laid_out, options.get("advanced"))
    if reference is not None:
        return FfiOp(own, reference, **given)
    made: FfiOp[Result] = FfiOp(own, results=laid_out.shapes(own), **given)
    return made


def _check_status(where: str, laid_out: Layout, status: object) -> None:
    is_known = (
        status is None
        or isinstance(status, str)
        or (
            isinstance(status, Mapping)
            and all(isinstance(number, int) for number in status)
            and all(isinstance(text, str) for text in status.values())
        )
    )
    if not is_known:
        raise TypeError(
            f"{where}: status: expected a text, a mapping of integers to texts "
            f'or "nan", got {status!r}'
        )
    if status is not None and not laid_out.has_status:
        raise ValueError(
            f"{where}: status: expected a parameter or a result that is "
            f"status, got none in {laid_out.declaration}"
        )


def _aliased(
    laid_out: Layout, aliases: Mapping[str, str | int]
) -> Collection[int]:
    """The results that may be in an operand's memory, by index."""
    names = laid_out.result_names
    return {
        names.index(result) if result in names else int(result)
        for result in aliases.values()
        if isinstance(result, int) or result in names
    }


def _with_layouts(laid_out: Layout, advanced: Advanced | None) -> Advanced:
    """The author's options, with the orders of axes in memory."""
    advanced = advanced or Advanced()
    operands = zip(laid_out.names, laid_out.operands, strict=True)
    inputs = {name: a.order for name, a in operands if a.order}
    results = enumerate(laid_out.results)
    outputs: dict[str | int, tuple[int, ...]] = {
        i: a.order for i, a in results if a.order
    }
    return dataclasses.replace(
        advanced,
        input_layouts={**inputs, **advanced.input_layouts},
        output_layouts={**outputs, **advanced.output_layouts},
    )


def _find(
    where: str, function: object, library: object, symbol: object
) -> Pointer:
    if (function is None) == (library is None):
        got = "neither" if function is None else "both"
        raise TypeError(
            f"{where}: function, library: expected one of them, got {got}"
        )
    if library is not None:
        return pointer.of_library(where, library, symbol)
    if symbol is not None:
        raise TypeError(
            f"{where}: symbol: expected none without library=, got {symbol!r}"
        )
    return pointer.of(where, function)


def _compare(where: str, declared: Declaration, found: Pointer) -> Declaration:
    """Compares a type with the function's own; adds Cython's parameter."""
    own = found.told
    assert own is not None
    if found.skips_dispatch and declared.parameters[-1:] != own.parameters[-1:]:
        every = (*declared.parameters, own.parameters[-1])
        declared = dataclasses.replace(declared, parameters=every)
    if not declared.agrees(own):
        raise ValueError(
            f"{where}: signature: expected {own.types}, which the function "
            f"says itself, got {declared.types}"
        )
    return declared
