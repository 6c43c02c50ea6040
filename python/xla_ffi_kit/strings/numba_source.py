"""Writes the Python that decodes XLA's call frame around a numba kernel.

It is source code, because numba specializes on the numbers of operands and axes
only where they are literals.
"""

from __future__ import annotations

import ctypes
import dataclasses
import functools
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, Protocol, cast

import numpy as np

from xla_ffi_kit.library import c_api
from xla_ffi_kit.strings import element_types


@dataclasses.dataclass(frozen=True)
class Frame:
    """The operands, results and attributes of a call of the operation."""

    name: str
    operand_axes: tuple[int, ...]
    result_axes: tuple[int, ...]
    attributes: Mapping[str, np.dtype | tuple[np.dtype]]  # a tuple: arrays
    dtypes: tuple[np.dtype, ...]


class Handler(Protocol):
    """The type of the result of `numba.cfunc`."""

    @property
    def address(self) -> int:
        """The address of the C function."""


def compile_handler(
    numba: ModuleType, kernel: Callable[..., None], frame: Frame, message: str
) -> Handler:
    """Compiles the cfunc; keep it alive as long as XLA may call it."""
    names = _helpers(numba) | {
        "kernel": kernel
        if numba.extending.is_jitted(kernel)
        else numba.njit(nogil=True)(kernel),
        "raised": _error_args(message),
        "small": _error_args(
            f"{frame.name}: call: expected a call frame and metadata of at "
            "least the sizes of XLA's FFI API 0.2"
        ),
        "wrong": _error_args(
            f"{frame.name}: call: expected {_describe(frame)}"
        ),
    }
    names |= {
        f"dtype{i}": numba.np.numpy_support.from_dtype(dtype)
        for i, dtype in enumerate(frame.dtypes)
    }
    names |= {
        f"attribute{i}": numba.np.numpy_support.from_dtype(_element(declared))
        for i, declared in enumerate(frame.attributes.values())
    }
    exec(
        compile(_source(frame), f"<numba handler {frame.name}>", "exec"), names
    )
    cfunc = numba.cfunc("int64(int64)", nopython=True)
    return cast(Handler, cfunc(names["handler"]))


def _element(declared: np.dtype | tuple[np.dtype]) -> np.dtype:
    return declared[0] if isinstance(declared, tuple) else declared


def _describe(frame: Frame) -> str:
    dtypes = ", ".join(dtype.name for dtype in frame.dtypes)
    return (
        f"{len(frame.operand_axes)} operands and {len(frame.result_axes)} "
        f"results of one dtype of {dtypes}, and {len(frame.attributes)} "
        "attributes of the declared types"
    )


_FAIL = "        return fail(frame, wrong)"


def _source(frame: Frame) -> str:
    """Writes the handler: metadata, checks, the kernel for each dtype."""
    call, extension = c_api.CallFrame, c_api.MetadataExtension
    metadata = c_api.MetadataStruct
    room = metadata.traits.offset + metadata.traits.size
    buffers = [
        (f"{what[0]}{i}", f"load({what} + {8 * i})", axes)
        for what, all_axes in (
            ("operands", frame.operand_axes),
            ("results", frame.result_axes),
        )
        for i, axes in enumerate(all_axes)
    ]
    lines = [
        "def handler(frame):",
        f"    if load(frame) < {call.future.offset}:",
        "        return fail(frame, small)",
        f"    extension = load(frame + {call.extension_start.offset})",
        # XLA may add extensions of other types, to calls too.
        "    while extension != 0 and "
        f"load32(extension + {extension.type.offset}) != "
        f"{c_api.METADATA_EXTENSION}:",
        f"        extension = load(extension + {extension.next.offset})",
        "    if extension != 0:",
        f"        if load(extension) < {extension.spare.offset}:",
        "            return fail(frame, small)",
        f"        data = load(extension + {extension.metadata.offset})",
        f"        if load(data) < {room}:",
        "            return fail(frame, small)",
        f"        store32(data + {c_api.VERSION_OFFSETS[0]}, 0)",
        f"        store32(data + {c_api.VERSION_OFFSETS[1]}, 2)",
        f"        store32(data + {metadata.traits.offset}, 0)",
        "        return 0",
        *_lists(frame),
    ]
    for name, address, axes in buffers:
        lines += _buffer(name, address, axes)
    lines += _attributes(frame)
    for i, dtype in enumerate(frame.dtypes):
        number = element_types.number_of(dtype)
        same = [f"{name}_type == {number}" for name, _, _ in buffers]
        arrays = [_array(name, axes, f"dtype{i}") for name, _, axes in buffers]
        count = len(frame.operand_axes)
        numbers = [f"a{j}" for j in range(len(frame.attributes))]
        parameters = [*arrays[:count], *numbers, *arrays[count:]]
        lines += [
            f"    if {' and '.join(same)}:",
            "        try:",
            f"            kernel({', '.join(parameters)})",
            "        except Exception:",
            "            return fail(frame, raised)",
            "        return 0",
        ]
    lines.append("    return fail(frame, wrong)")
    return "\n".join(lines) + "\n"


def _lists(frame: Frame) -> list[str]:
    """Addresses of the operands, results and attributes, counted."""
    call, args, attrs = c_api.CallFrame, c_api.Args, c_api.Attrs
    lines = []
    for what, at, values, wanted in (
        ("operands", call.args, args.values, frame.operand_axes),
        ("results", call.rets, args.values, frame.result_axes),
        ("attributes", call.attrs, attrs.values, frame.attributes),
    ):
        size = at.offset + args.size.offset
        lines += [
            f"    if load(frame + {size}) != {len(wanted)}:",
            _FAIL,
            f"    {what} = load(frame + {at.offset + values.offset})",
        ]
    return lines


def _buffer(name: str, address: str, axes: int) -> list[str]:
    """A buffer's fields, and the size of all axes before its own."""
    buffer = c_api.Buffer
    return [
        f"    {name} = {address}",
        f"    {name}_type = load32({name} + {buffer.dtype.offset})",
        f"    {name}_rank = load({name} + {buffer.rank.offset})",
        f"    {name}_dims = load({name} + {buffer.dims.offset})",
        f"    if {name}_rank < {axes}:",
        _FAIL,
        f"    {name}_rows = 1",
        f"    for axis in range({name}_rank - {axes}):",
        f"        {name}_rows *= load({name}_dims + 8 * axis)",
    ]


def _array(name: str, axes: int, dtype: str) -> str:
    """A buffer as an array of rows."""
    shape = [f"{name}_rows"] + [
        f"load({name}_dims + 8 * ({name}_rank - {own}))"
        for own in range(axes, 0, -1)
    ]
    data = f"load({name} + {c_api.Buffer.data.offset})"
    return f"array({data}, ({', '.join(shape)},), {dtype})"


def _attributes(frame: Frame) -> list[str]:
    """The attributes, in the reference's order; XLA sorts them by name."""
    lines = []
    places = sorted(frame.attributes)
    kinds = c_api.CallFrame.attrs.offset + c_api.Attrs.types.offset
    for i, (name, declared) in enumerate(frame.attributes.items()):
        at = places.index(name)
        number = element_types.number_of(_element(declared))
        # XLA_FFI_Scalar {type, pointer}, XLA_FFI_Array {type, size, pointer}.
        kind, value = 3, f"array(load(value + 8), (1,), attribute{i})[0]"
        if isinstance(declared, tuple):
            shape = "(load(value + 8),)"
            kind, value = 1, f"array(load(value + 16), {shape}, attribute{i})"
        lines += [
            f"    value = load(attributes + {8 * at})",
            f"    if load32(load(frame + {kinds}) + {4 * at}) != {kind}:",
            _FAIL,
            f"    if load32(value) != {number}:",
            _FAIL,
            f"    a{i} = {value}",
        ]
    return lines


def _error_args(message: str) -> int:
    """Address of the arguments of XLA_FFI_Error_Create, which stay there."""
    text = ctypes.create_string_buffer(message.encode())
    args = c_api.ErrorCreateArgs(
        struct_size=ctypes.sizeof(c_api.ErrorCreateArgs) - 4,
        message=ctypes.cast(text, ctypes.c_char_p),
        code=13,  # XLA_FFI_Error_Code_INTERNAL
    )
    _kept.append((text, args))
    return ctypes.addressof(args)


_kept: list[object] = []


@functools.cache
def _helpers(numba: ModuleType) -> dict[str, object]:
    """Loads, stores and the call of XLA's error function, for the source."""
    from llvmlite import ir

    types = numba.types
    address_of_create = c_api.Api.error_create.offset
    api = c_api.CallFrame.api.offset

    intrinsic: Callable[[Any], Callable[..., Any]] = numba.extending.intrinsic

    @intrinsic
    def pointer(context: Any, address: Any) -> Any:
        def generate(
            context: Any, builder: Any, signature: Any, args: Any
        ) -> Any:
            return builder.inttoptr(args[0], ir.IntType(8).as_pointer())

        return types.voidptr(types.int64), generate

    @intrinsic
    def call(context: Any, function: Any, argument: Any) -> Any:
        def generate(
            context: Any, builder: Any, signature: Any, args: Any
        ) -> Any:
            word = ir.IntType(64)
            kind = ir.FunctionType(word, [word]).as_pointer()
            return builder.call(builder.inttoptr(args[0], kind), [args[1]])

        return types.int64(types.int64, types.int64), generate

    carray, int64, int32 = numba.carray, types.int64, types.int32

    njit: Callable[[Any], Callable[..., Any]] = numba.njit

    @njit
    def array(address: int, shape: tuple[int, ...], dtype: Any) -> Any:
        return carray(pointer(address), shape, dtype)

    @njit
    def load(address: int) -> Any:
        return carray(pointer(address), 1, int64)[0]

    @njit
    def load32(address: int) -> Any:
        return carray(pointer(address), 1, int32)[0]

    @njit
    def store32(address: int, value: int) -> None:
        carray(pointer(address), 1, int32)[0] = value

    @njit
    def fail(frame: int, args: int) -> Any:
        return call(load(load(frame + api) + address_of_create), args)

    return {
        "array": array,
        "load": load,
        "load32": load32,
        "store32": store32,
        "fail": fail,
    }
