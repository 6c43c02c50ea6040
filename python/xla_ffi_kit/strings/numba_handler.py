"""`numba_kernel` makes an operation from a Python function, by numba.

numba's `cfunc` compiles a C function that takes the address of XLA's call
frame, so it can be the handler itself. The generated code reads the frame at
the offsets of its C structs. A call therefore needs no Python frame and no GIL.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable
from types import ModuleType
from typing import Unpack, cast

import jax
import numpy as np

from xla_ffi_kit.errors import BuildError
from xla_ffi_kit.primitive import axes as kernel_of
from xla_ffi_kit.primitive.ffi_op import Decorator, FfiOp, R
from xla_ffi_kit.primitive.spec import AttributeType, Options
from xla_ffi_kit.strings import (
    element_types,
    numba_identity,
    numba_source,
    references,
)
from xla_ffi_kit.strings.element_types import DTypes

_WITHOUT = ("bfloat16", "float16")  # numba has no arithmetic for them


@dataclasses.dataclass(frozen=True)
class _Registered:
    """A handler that lives as long as the process, as XLA keeps its address."""

    identity: str
    handler: numba_source.Handler


_lock = threading.Lock()
_registered: dict[str, _Registered] = {}  # by custom call target


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
    reference's order, then the results, and writes the results. Attributes are
    numbers or arrays of numbers. Operands and results are contiguous arrays
    with `kernel_axes + 1` axes: the batch axes are flattened into the first
    one. With `kernel_axes=0`, the kernel gets all elements in one axis. An
    exception in the kernel becomes the error of the call.

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
        need their types in `attributes`. `handlers["cpu"]` is the custom call
        target of the kernel. It defaults to the reference's name and a hash of
        the kernel's bytecode and everything that the kernel refers to. The hash
        is the same in every process of one version of Python, so an exported
        program never runs another kernel.

    Raises:
      BuildError: numba is missing or cannot be imported, it cannot compile the
        kernel, or another kernel of this process has the same target.
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
        frame = numba_source.Frame(
            name=name,
            operand_axes=tuple(axes),
            result_axes=(own,) * results,
            attributes=attributes,
            dtypes=_dtypes(name, dtypes),
        )
        chosen = options.get("handlers", {})
        target = _register(numba, kernel, frame, chosen.get("cpu"))
        given = options.copy()
        given["handlers"] = {**chosen, "cpu": target}
        given["attributes"] = attributes
        return FfiOp(
            name,
            reference,
            kernel_axes=kernel_axes,
            dtypes=[dtype.name for dtype in frame.dtypes],
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


def _register(
    numba: ModuleType,
    kernel: Callable[..., None],
    frame: numba_source.Frame,
    chosen: object,
) -> str:
    """Compiles the kernel and registers it, once; returns its target."""
    identity = numba_identity.digest(kernel, *dataclasses.astuple(frame))
    target = f"{frame.name}.{identity}" if chosen is None else chosen
    if not isinstance(target, str) or not target:
        raise BuildError(
            f"{frame.name}: handlers: expected the name of a custom call "
            f"target for cpu, got {target!r}"
        )
    with _lock:
        there = _registered.get(target)
        if there is None:
            handler = _compile(numba, kernel, frame)
            jax.ffi.register_ffi_target(
                target, jax.ffi.pycapsule(handler.address), platform="cpu"
            )
            jax.ffi.register_ffi_target_as_batch_partitionable(target)
            _registered[target] = _Registered(identity, handler)
        elif there.identity != identity:
            raise BuildError(
                f"{frame.name}: handlers: expected a custom call target of its "
                f"own for cpu, got {target}, which another kernel of this "
                "process has"
            )
    return target


def _compile(
    numba: ModuleType, kernel: Callable[..., None], frame: numba_source.Frame
) -> numba_source.Handler:
    message = f"{frame.name}: the numba kernel raised an exception"
    try:
        return numba_source.compile_handler(numba, kernel, frame, message)
    except numba.core.errors.NumbaError as error:
        raise BuildError(
            f"{frame.name}: numba cannot compile the kernel: {error}"
        ) from error
