"""`c_function` makes an operation from any C function, without a compiler."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Unpack

from xla_ffi_kit._check import Typed
from xla_ffi_kit.ffi_op import FfiOp
from xla_ffi_kit.functions import declaration as declarations
from xla_ffi_kit.functions import (
    function_table,
    layout,
    numba_identity,
    pointer,
)
from xla_ffi_kit.functions.declaration import SKIP_DISPATCH, Declaration
from xla_ffi_kit.functions.function_table import FunctionKernel
from xla_ffi_kit.functions.pointer import Pointer
from xla_ffi_kit.op.spec import KernelAttributes, Options, Request, Result

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


@dataclasses.dataclass(frozen=True, kw_only=True)
class _TypedKernel(FunctionKernel):
    """A C function with its type.

    Attributes:
      told: the function's own name, and its library if that is known.
      declaration: the function, for errors.
      dtypes: the types of the results.
    """

    told: str
    declaration: Declaration
    dtypes: tuple[str, ...]

    def prepare(self, request: Request) -> KernelAttributes:
        """The attributes of a call: the name of the function."""
        got = tuple(_dtype(result) for result in request.results)
        if got != self.dtypes:
            raise TypeError(
                f"{self.name}: results of the reference: expected "
                f"{', '.join(self.dtypes)}, as {self.declaration}, got "
                f"{', '.join(got)}"
            )
        return lambda _: {"name": self.function}

    def report(self) -> str:
        """The function, and the handler that calls it."""
        return f"{self.told}, {self.declaration}, by {super().report()}"


def _dtype(x: Typed) -> str:
    return x.dtype.name


def c_function(
    signature: str,
    function: object = None,
    *,
    library: object = None,
    symbol: str | None = None,
    name: str | None = None,
    reference: Callable[..., Result] | None = None,
    thread_safe: bool = True,
    **options: Unpack[Options],
) -> FfiOp[Result]:
    """Makes an operation from a C function of numbers, or of rows.

    Nothing is compiled: a handler of the kit calls the function, on CPUs.

    A function of numbers computes elementwise. All operands have one shape, and
    exactly the types of its parameters; what it returns is the result:

      jn = c_function("double(int n, double x)", library="libm.so.6",
                      symbol="jn")

    A function of pointers computes a row at a time. A pointer to const is a row
    of an operand, another pointer a row of a result, an integer with the name
    of an axis its size, and any other number an element for each row. By
    default rows have one axis, `n`; `axes` names others:

      c_function("void(const double* a, const double* x, double* y, int64_t m,
                 int64_t n)", address, name="gemv", axes="(m,n),(n)->(m)")

    Such a function returns nothing, a number, which is the first result, or an
    integer, which is 0 if it succeeded: another is the error of the call. Its
    results are NaN, or integers of all bits, before it writes them: what it
    reads there, or leaves unwritten, is no number of another call.

    Args:
      signature: the function's type in C, with or without names, which are
        those of the operands. Numbers are `double`, `float`, `bool`, and
        integers such as `int`, `size_t` and `int32_t`.
      function: the function: an address, a function pointer of ctypes or cffi,
        a `numba.cfunc`, or a capsule of a Cython module's `__pyx_capi__`. If
        it knows its own type, that is compared. It must not throw C++
        exceptions.
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
      thread_safe: whether several threads may call the function at the same
        time. If not, one thread of the process at a time calls one of the
        functions that are not.
      **options: other keywords of `FfiOp`: `axes`, `jvp`, `vjp`, `linear`,
        `transpose`, `shared`, `handlers` for other platforms, `advanced`.

    Raises:
      TypeError: an argument is of a wrong type.
      ValueError: the signature cannot be read or called, the library or symbol
        is missing, the function says that it has another type, or another
        function has the same name.
      HandlerLibraryError: the kit's library cannot be used.
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
    if found.identity:
        # Declared in another way, the same code is another function.
        identity = numba_identity.digest(
            *(found.identity, str(declared), laid_out.axes, bool(thread_safe))
        )
        found = dataclasses.replace(found, identity=identity)
    target = f"{own}.{found.identity}" if found.identity and not name else own
    function_table.define(
        own,
        target,
        found,
        function_table.parameters_of(laid_out),
        signature=f"{declared} {laid_out.axes}",
        returns=declared.returns.dtype if declared.returns else None,
        is_status=laid_out.is_status,
        thread_safe=bool(thread_safe),
    )
    kernel = _TypedKernel(
        name=own,
        function=target,
        told=found.report(),
        declaration=declared,
        dtypes=tuple(a.dtype.name for a in laid_out.results),
    )
    given = options.copy()
    given["axes"] = laid_out.axes
    given["handlers"] = {**(options.get("handlers") or {}), "cpu": kernel}
    dtypes = [tuple(a.dtype.name for a in laid_out.operands)]
    if reference is not None:
        return FfiOp(own, reference, dtypes=dtypes, **given)
    made: FfiOp[Result] = FfiOp(
        own, results=laid_out.shapes(own), dtypes=dtypes, **given
    )
    return made


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
        last = own.parameters[-1]
        declared = Declaration(declared.returns, (*declared.parameters, last))
    if not declared.agrees(own):
        expected, got = (
            dataclasses.replace(
                one,
                parameters=tuple(
                    p for p in one.parameters if p.name != SKIP_DISPATCH
                ),
            )
            for one in (own, declared)
        )
        raise ValueError(
            f"{where}: signature: expected {expected}, which the function says "
            f"itself, got {got}"
        )
    return declared
