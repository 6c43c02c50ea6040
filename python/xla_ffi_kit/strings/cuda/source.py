"""Writes the CUDA kernel around an author's code, and how it is launched."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from xla_ffi_kit.strings.text import element_types
from xla_ffi_kit.strings.text.loops import Elements, Loop, Rows
from xla_ffi_kit.strings.text.source import OF, Place, without_places

SYMBOL = "kit_kernel"
_ROWS_OF_BLOCK = 32  # one warp, which kit::for_each requires
THREADS = 256  # of a block of elements
_PACK_BYTES = 16  # of an array for each thread


@dataclasses.dataclass(frozen=True)
class Kernel:
    """A kernel for operands of some dtypes.

    Attributes:
      text: the program.
      expression: a C++ expression for the kernel's address.
      threads: the number of threads of a block, if the kernel decides it.
      items: three numbers that say how blocks divide the work: the index of a
        buffer, the number of its trailing axes that make an item, and the items
        of a block. It is empty if the caller decides.
    """

    text: str
    expression: str
    threads: int = 0
    items: tuple[int, ...] = ()

    def hashed(self) -> str:
        """The text without the places of its parts, which change no code."""
        return without_places(self.text)


def _head(loop: Loop, before: str, place: Place | None) -> list[str]:
    lines = ['#include "xla_ffi/strings/cuda/kit.h"']
    if before:
        assert place is not None
        lines.append(f"{place.directive()}{before}")
    return lines


def _kernel(
    loop: Loop,
    dtype: np.dtype[np.generic],
    head: Sequence[str],
    threads: int,
    body: Sequence[str],
) -> str:
    """The program: an author's functions, and the kernel with its parameters.

    Their order is the operands', the attributes', the results', and the number
    of items.
    """
    of = element_types.cpp_type(dtype)
    attributes = map(on_devices, loop.attributes.values())
    types = [*loop.parameters(of, attributes), "int64_t kit_items"]
    parameters = ", ".join(f"const __grid_constant__ {p}" for p in types)
    lines = [
        *head,
        f'{_here(loop)}extern "C" __global__ void '
        f"__launch_bounds__({threads}) {SYMBOL}({parameters}) {{",
        f"using T = {of};",
        "using A = kit::Accumulate<T>;",
        *loop.given("A", "const auto&"),
        *body,
        "}",
    ]
    return "\n".join(lines) + "\n"


def on_devices(cpp: str) -> str:
    """Returns the type of an attribute in a kernel, given that on CPUs."""
    return "kit::String" if cpp == "std::string_view" else cpp


def _here(loop: Loop) -> str:
    return Place(f"<kernel of {loop.name}>", 1).directive()


def elements(text: str, dtype: np.dtype[np.generic]) -> Kernel:
    """The kernel whose threads call kit::ForElements(), for a dtype."""
    of_block = THREADS * (_PACK_BYTES // dtype.itemsize)
    return Kernel(text, SYMBOL, THREADS, (0, 0, of_block))


def of_elements(code: Elements, dtype: np.dtype[np.generic]) -> Kernel:
    """The kernel of `elementwise` for arrays of a dtype."""
    loop = code.loop
    ins = ", ".join(f"{OF}{name}.data()" for name in loop.operands)
    outs = ", ".join(f"{OF}{name}.data()" for name in loop.results)
    body = [
        f"const T* const kit_ins[] = {{{ins}}};",
        f"T* const kit_outs[] = {{{outs}}};",
        "kit::ForElements(kit_items, kit_ins, kit_outs, "
        "[&](const T* kit_in, T* kit_out) {",
        *code.body("kit_in[{i}]", "kit_out[{i}]", _here(loop)),
        "});",
    ]
    head = _head(loop, code.before, code.before_place)
    return elements(_kernel(loop, dtype, head, THREADS, body), dtype)


def of_rows(code: Rows, dtype: np.dtype[np.generic]) -> Kernel:
    """The kernel of `rows` for a dtype, in which each thread computes a row."""
    loop = code.loop
    body = [
        f"const int64_t kit_i = {_ROWS_OF_BLOCK}ll * blockIdx.x + threadIdx.x;",
        "if (kit_i >= kit_items) return;",
        *code.arrays("kit_i"),
        *code.code(_here(loop)),
    ]
    head = _head(loop, code.before, code.before_place)
    return Kernel(
        _kernel(loop, dtype, head, _ROWS_OF_BLOCK, body),
        SYMBOL,
        _ROWS_OF_BLOCK,
        (code.first, code.kernel_axes[code.first], _ROWS_OF_BLOCK),
    )


def array_bytes(values: Mapping[str, object]) -> int:
    """KIT_ARRAY_BYTES: the room for the longest attribute that is a sequence.

    In powers of two, so that sequences of many lengths have one kernel.
    """
    longest = max(
        (len(_data(v)) for v in values.values() if _is_long(v)), default=0
    )
    return max(8, 1 << (longest - 1).bit_length()) if longest else 8


def _is_long(value: object) -> bool:
    return isinstance(value, np.ndarray | str)


def _data(value: object) -> bytes:
    if isinstance(value, str):
        return value.encode()
    assert isinstance(value, np.ndarray | np.generic)
    return value.tobytes()


def constants(
    names: Sequence[str], values: Mapping[str, object]
) -> tuple[bytes, list[int]]:
    """Returns the bytes of the attributes, and where each one begins."""
    room = array_bytes(values)
    packed, offsets = b"", []
    for name in names:
        offsets.append(len(packed))
        value = values[name]
        data = _data(value)
        if _is_long(value):
            size = len(data) if isinstance(value, str) else value.size  # type: ignore
            data = size.to_bytes(8, "little") + data.ljust(room, b"\0")
        packed += data + b"\0" * (-len(data) % 8)
    return packed, offsets
