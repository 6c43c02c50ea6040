"""`numba_kernel` makes an operation from a Python function, by numba.

numba's `cfunc` compiles a C function of arrays for each dtype, and the compiler
of strings the handler that calls it. A call needs no Python frame and no GIL.
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
from xla_ffi_kit.functions import (
    function_library,
    numba_identity,
    numba_source,
)
from xla_ffi_kit.functions import source as sources
from xla_ffi_kit.functions.function_library import FunctionLibrary
from xla_ffi_kit.functions.pointer import Pointer
from xla_ffi_kit.op import axes as kernel_of
from xla_ffi_kit.op.spec import AttributeType, Options
from xla_ffi_kit.strings.text import element_types, references
from xla_ffi_kit.strings.text.element_types import DTypes
from xla_ffi_kit.strings.text.loops import Parameters
from xla_ffi_kit.strings.text.source import OF, Place, Source

_WITHOUT = ("bfloat16", "float16")  # numba has no arithmetic for them
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
        parameters = Parameters(reference, results, declared)
        chosen = options.get("handlers") or {}
        library = _library(numba, kernel, arrays, parameters, chosen.get("cpu"))
        given = options.copy()
        given["handlers"] = {**chosen, "cpu": library.target}
        given["libraries"] = library
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


def _library(
    numba: ModuleType,
    kernel: Callable[..., None],
    arrays: numba_source.Arrays,
    parameters: Parameters,
    chosen: object,
) -> FunctionLibrary:
    """Compiles the kernel, once, and the handler that calls it."""
    identity = numba_identity.digest(kernel, *dataclasses.astuple(arrays))
    target = f"{arrays.name}.{identity}" if chosen is None else chosen
    if not isinstance(target, str) or not target:
        raise BuildError(
            f"{arrays.name}: handlers: expected the name of a custom call "
            f"target for cpu, got {target!r}"
        )
    with _lock:
        known = function_library.known(target)
        if known is not None:
            if {p.identity for p in known.pointers} == {identity}:
                return known
            raise BuildError(
                f"{arrays.name}: handlers: expected a custom call target of "
                f"its own for cpu, got {target}, which another kernel of this "
                "process has"
            )
        functions = _compile(numba, kernel, arrays)
        return function_library.load(
            _source(target, arrays, parameters),
            target,
            [
                Pointer(f.address, owner=f, identity=identity)
                for f in (functions[dtype] for dtype in arrays.dtypes)
            ],
            told=f"the numba kernel, by the handler {target}",
        )


def _compile(
    numba: ModuleType, kernel: Callable[..., None], arrays: numba_source.Arrays
) -> dict[np.dtype, numba_source.CFunction]:
    try:
        return numba_source.compile_functions(numba, kernel, arrays)
    except numba.core.errors.NumbaError as error:
        raise BuildError(
            f"{arrays.name}: numba cannot compile the kernel: {error}"
        ) from error


def _source(
    target: str, arrays: numba_source.Arrays, parameters: Parameters
) -> Source:
    """The handler's function, which calls that of the dtype of its arrays."""
    data: list[str] = []
    sizes: list[str] = []
    own = zip(parameters.operands, arrays.operand_axes, strict=True)
    written = zip(parameters.results, arrays.result_axes, strict=True)
    for name, axes in own:
        _add_array(f"{OF}{name}", axes, data, sizes)
    for name, type_ in parameters.attributes.items():
        is_array = type_.startswith("kit::Array")
        data.append(f"{OF}{name}.data()" if is_array else f"&{OF}{name}")
        sizes.append(f"{OF}{name}.size()" if is_array else "1")
    for name, axes in written:
        _add_array(f"{OF}{name}", axes, data, sizes)
    dtypes = [dtype.name for dtype in arrays.dtypes]
    types = element_types.template_arguments(arrays.name, dtypes)
    places = [
        f"template <> constexpr int kit_place<{type_}> = {i};"
        for i, type_ in enumerate(types)
    ]
    declarations = parameters.declarations("T", parameters.attributes.values())
    lines = [
        f"// {target}\n{sources.exported(len(types))}",
        "template <typename T> constexpr int kit_place = -1;",
        *places,
        "template <typename T>",
        f"const char* kit_call({', '.join(declarations)}) {{",
        f"const void* const data[] = {{{', '.join(data)}}};",
        f"const int64_t sizes[] = {{{', '.join(sizes)}}};",
        "auto* const function = reinterpret_cast<int64_t (*)("
        "const void* const*, const int64_t*)>(",
        f"{sources.FUNCTIONS}[kit_place<T>]);",
        "const bool raised = function(data, sizes) != 0;",
        'return raised ? "the numba kernel raised an exception" : nullptr;',
        "}",
    ]
    return Source(
        name=arrays.name,
        code="\n".join(lines) + "\n",
        function="kit_call",
        instances=types,
        operands=parameters.operands,
        attributes=tuple(parameters.attributes),
        place=Place(f"<call of {arrays.name}>", 1),
    )


def _add_array(
    variable: str, axes: int, data: list[str], sizes: list[str]
) -> None:
    """An array's address; its rows, and the sizes of its own axes."""
    data.append(f"{variable}.data()")
    sizes.append(f"{variable}.Product({variable}.rank() - {axes})")
    sizes += [f"{variable}.dim({axis})" for axis in range(-axes, 0)]
