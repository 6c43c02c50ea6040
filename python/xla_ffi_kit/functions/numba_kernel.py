"""`numba_kernel` makes an operation from a Python function, by numba.

numba's `cfunc` compiles a C function of arrays, which the handler
`xla_ffi_kit.call` calls. A call needs no Python frame and no GIL.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable
from types import ModuleType
from typing import Unpack, cast

import numpy as np

from xla_ffi_kit.errors import BuildError
from xla_ffi_kit.ffi_op import Decorator, FfiOp, R
from xla_ffi_kit.functions import function_table, numba_identity, numba_source
from xla_ffi_kit.functions.function_table import FunctionKernel
from xla_ffi_kit.functions.layout import Kind
from xla_ffi_kit.functions.pointer import Pointer
from xla_ffi_kit.op import axes as kernel_of
from xla_ffi_kit.op.spec import (
    AttributeType,
    KernelAttributes,
    Options,
    Request,
)
from xla_ffi_kit.strings.text import element_types, references
from xla_ffi_kit.strings.text.element_types import DTypes

_WITHOUT = ("bfloat16", "float16")  # numba has no arithmetic for them


@dataclasses.dataclass(frozen=True, kw_only=True)
class NumbaKernel(FunctionKernel):
    """A numba kernel, which the handler `xla_ffi_kit.call` calls.

    Attributes:
      arrays: what it takes. The handler knows it by a name for each dtype.
    """

    arrays: numba_source.Arrays

    def prepare(self, request: Request) -> KernelAttributes:
        """The attributes of a call: the function of its dtype, and values."""
        types = {x.dtype.name for x in (*request.operands, *request.results)}
        known = {dtype.name for dtype in self.arrays.dtypes}
        if len(types) > 1 or not types <= known:
            raise TypeError(
                f"{self.name}: call: expected {self.arrays}, got arrays of "
                f"{', '.join(sorted(types))}"
            )
        given: dict[str, object] = {"name": f"{self.function}.{types.pop()}"}
        words: list[np.ndarray] = []
        for name, declared in self.arrays.attributes.items():
            words += _words(request.attributes[name], declared)
        if words:
            given["values"] = np.concatenate(words)
        return lambda _: given


def _words(
    value: object, declared: np.dtype | tuple[np.dtype]
) -> list[np.ndarray]:
    """An attribute as xla_ffi/call/arrays.h has it."""
    dtype = numba_source.element(declared)
    array = np.atleast_1d(np.asarray(value, dtype))
    data = array.tobytes()
    data += bytes(-len(data) % 8)
    head = [element_types.number_of(dtype), array.size, len(data) // 8]
    return [np.array(head, np.int64), np.frombuffer(data, np.int64)]


_lock = threading.Lock()


def numba_kernel(
    kernel: Callable[..., None],
    *,
    dtypes: DTypes,
    kernel_axes: int | None = None,
    results: int = 1,
    result_axes: int | None = None,
    **options: Unpack[Options],
) -> Decorator:
    """Makes an operation from a reference and a function that numba compiles.

    The decorated function is the reference of an `FfiOp`. The kernel computes
    the operation on CPUs. It takes the operands and attributes in the
    reference's order, then the results, and writes the results, which are not
    zero before. Attributes are numbers or arrays of numbers. Operands and
    results are contiguous arrays with `kernel_axes + 1` axes: the batch axes
    are flattened into the first one. With `kernel_axes=0`, the kernel gets all
    elements in one axis. An exception in the kernel becomes the error of the
    call.

    Example:
      def scale_kernel(x, factor, y):
          for i in range(x.size):
              y[i] = factor * x[i]

      @xla_ffi_kit.numba_kernel(scale_kernel, dtypes="f32 f64", kernel_axes=0)
      def scale(x, *, factor=2.0):
          return factor * x

    Args:
      kernel: the function, which numba has to compile in its nopython mode.
      dtypes: the dtypes that the arrays may have, such as "f32 f64". All arrays
        of a call have the same one. numba has no bfloat16 and no float16.
      kernel_axes: the number of trailing axes of every operand that the kernel
        needs whole; `axes` tells operands apart.
      results: the number of results.
      result_axes: the number of axes that each result has after the batch axes.
        It defaults to that of the first operand.
      **options: all other keywords of `FfiOp`. Attributes without a default
        need their types in `attributes`. `handlers["cpu"]` is the name by
        which programs call the kernel. It defaults to the reference's name and
        a hash of the kernel's bytecode and everything that the kernel refers
        to. The hash is the same in every process of one version of Python, so
        an exported program never runs another kernel.

    Raises:
      BuildError: numba is missing or cannot be imported, it cannot compile the
        kernel, or another kernel of this process has the same name.
      HandlerLibraryError: the kit's library cannot be used.
    """
    numba = _numba()

    def decorate(reference: Callable[..., R]) -> FfiOp[R]:
        name = references.name_of(reference, "lambda")
        operands, _ = references.parameter_names(reference)
        axes, *_ = kernel_of.declared(
            name, operands, kernel_axes, options.get("axes")
        )
        own = axes[0] if result_axes is None else result_axes
        declared = options.get("attributes") or {}
        types = references.attribute_types(name, reference, declared)
        attributes = {
            a: _attribute(f"{name}: attribute {a}", t) for a, t in types.items()
        }
        arrays = numba_source.Arrays(
            name=name,
            operand_axes=tuple(axes),
            result_axes=(own,) * results,
            attributes=attributes,
            dtypes=_dtypes(name, dtypes),
        )
        chosen = options.get("handlers") or {}
        function = _define(numba, kernel, arrays, chosen.get("cpu"))
        called = NumbaKernel(name=name, function=function, arrays=arrays)
        given = options.copy()
        given["handlers"] = {**chosen, "cpu": called}
        given["attributes"] = attributes
        return FfiOp(
            name,
            reference,
            kernel_axes=kernel_axes,
            dtypes=[dtype.name for dtype in arrays.dtypes],
            **given,
        )

    return decorate


def _numba() -> ModuleType:
    try:
        import numba
    except ImportError as error:
        raise BuildError(
            f"numba_kernel needs numba, and it cannot be imported ({error}): "
            "pip install a release of numba that takes this Python and NumPy "
            f"{np.__version__}"
        ) from None
    return cast(ModuleType, numba)


def _attribute(
    where: str, declared: AttributeType
) -> np.dtype | tuple[np.dtype]:
    found = element_types.attribute(where, declared)
    if isinstance(found, type):
        raise BuildError(
            f"{where}: expected numbers, which are what a numba kernel takes, "
            "got a string"
        )
    _check_dtype(where, found[0] if isinstance(found, tuple) else found)
    return found


def _dtypes(name: str, dtypes: DTypes) -> tuple[np.dtype, ...]:
    found = element_types.instances(name, dtypes)
    for entry in found:
        if len(entry) != 1:
            raise BuildError(
                f"{name}: dtypes: expected one in each entry, which all arrays "
                f"of a call have, got {len(entry)}"
            )
        _check_dtype(f"{name}: dtypes", entry[0])
    return tuple(entry[0] for entry in found)


def _check_dtype(where: str, dtype: np.dtype) -> None:
    if dtype.name in _WITHOUT:
        raise BuildError(
            f"{where}: expected none of {', '.join(_WITHOUT)}, which numba "
            f"does not compute with, got {dtype.name}"
        )


def _define(
    numba: ModuleType,
    kernel: Callable[..., None],
    arrays: numba_source.Arrays,
    chosen: object,
) -> str:
    """Compiles the kernel and defines it, once; returns its name."""
    identity = numba_identity.digest(kernel, *dataclasses.astuple(arrays))
    name = f"{arrays.name}.{identity}" if chosen is None else chosen
    if not isinstance(name, str) or not name:
        raise BuildError(
            f"{arrays.name}: handlers: expected the name of a custom call "
            f"target for cpu, got {name!r}"
        )
    with _lock:
        for dtype in arrays.dtypes:
            known = function_table.identity_of(f"{name}.{dtype}")
            if known not in (None, identity):
                raise BuildError(
                    f"{arrays.name}: handlers: expected a custom call target "
                    f"of its own for cpu, got {name}, which another kernel of "
                    "this process has"
                )
        if known is None:
            for dtype, function in _compile(numba, kernel, arrays).items():
                _define_one(name, dtype, identity, function, arrays)
    return name


def _compile(
    numba: ModuleType, kernel: Callable[..., None], arrays: numba_source.Arrays
) -> dict[np.dtype, numba_source.CFunction]:
    try:
        return numba_source.compile_functions(numba, kernel, arrays)
    except numba.core.errors.NumbaError as error:
        raise BuildError(
            f"{arrays.name}: numba cannot compile the kernel: {error}"
        ) from error


def _define_one(
    name: str,
    dtype: np.dtype,
    identity: str,
    function: numba_source.CFunction,
    arrays: numba_source.Arrays,
) -> None:
    """Makes the C function of one dtype known to the handler."""
    parameters = [
        function_table.parameter(Kind.OPERAND, dtype, axes)
        for axes in arrays.operand_axes
    ]
    parameters += [
        function_table.parameter(
            Kind.ATTRIBUTE,
            numba_source.element(declared),
            isinstance(declared, tuple),
        )
        for declared in arrays.attributes.values()
    ]
    parameters += [
        function_table.parameter(Kind.RESULT, dtype, axes)
        for axes in arrays.result_axes
    ]
    function_table.define(
        arrays.name,
        f"{name}.{dtype}",
        Pointer(function.address, owner=function, identity=identity),
        parameters,
        signature="the numba kernel",
        failure=f"{arrays.name}: the numba kernel raised an exception",
    )
