"""Writes the CUDA kernel around the code of `elementwise` and `rows`."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from xla_ffi_kit.strings.text import element_types
from xla_ffi_kit.strings.text.loops import Elements, Rows
from xla_ffi_kit.strings.text.source import OF, Place, without_places

SYMBOL = "kit_kernel"
_ROWS_PER_BLOCK = 32  # one warp, which kit::for_each requires
THREADS = 256  # per block of elements
_BYTES_PER_THREAD = 16  # of each array: a pack, see xla_ffi/strings/cuda/pack.h


@dataclasses.dataclass(frozen=True)
class CudaSource:
    """A program with a kernel for operands of some dtypes.

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


def _program(
    code: Elements | Rows,
    dtype: np.dtype[np.generic],
    threads: int,
    body: Sequence[str],
) -> str:
    """The program: an author's functions, and the kernel with its parameters.

    Their order is the operands', the attributes', the results', and the number
    of items.
    """
    element = element_types.cpp_type(dtype)
    attributes = map(on_devices, code.parameters.attributes.values())
    declarations = code.parameters.declarations(element, attributes)
    parameters = ", ".join(
        f"const __grid_constant__ {declaration}"
        for declaration in (*declarations, "int64_t kit_items")
    )
    before = []
    if code.before_place is not None:
        before = [f"{code.before_place.directive()}{code.before}"]
    lines = [
        '#include "xla_ffi/strings/cuda/kit.h"',
        *before,
        f'{_here(code)}extern "C" __global__ void '
        f"__launch_bounds__({threads}) {SYMBOL}({parameters}) {{",
        f"using T = {element};",
        "using A = kit::Accumulate<T>;",
        *code.parameters.attribute_values("A", "const auto&"),
        *body,
        "}",
    ]
    return "\n".join(lines) + "\n"


def on_devices(cpp: str) -> str:
    """The C++ type in a kernel of an attribute that has a type on CPUs."""
    return "kit::String" if cpp == "std::string_view" else cpp


def _here(code: Elements | Rows) -> str:
    return Place(f"<kernel of {code.parameters.name}>", 1).directive()


def elements(text: str, dtype: np.dtype[np.generic]) -> CudaSource:
    """The kernel whose threads call kit::ForElements(), for a dtype."""
    per_block = THREADS * (_BYTES_PER_THREAD // dtype.itemsize)
    return CudaSource(text, SYMBOL, THREADS, (0, 0, per_block))


def of_elements(code: Elements, dtype: np.dtype[np.generic]) -> CudaSource:
    """The kernel of `elementwise` for arrays of a dtype."""
    parameters = code.parameters
    ins = ", ".join(f"{OF}{name}.data()" for name in parameters.operands)
    outs = ", ".join(f"{OF}{name}.data()" for name in parameters.results)
    body = [
        f"const T* const kit_ins[] = {{{ins}}};",
        f"T* const kit_outs[] = {{{outs}}};",
        "kit::ForElements(kit_items, kit_ins, kit_outs, "
        "[&](const T* kit_in, T* kit_out) {",
        *code.body("kit_in[{i}]", "kit_out[{i}]", _here(code)),
        "});",
    ]
    return elements(_program(code, dtype, THREADS, body), dtype)


def of_rows(code: Rows, dtype: np.dtype[np.generic]) -> CudaSource:
    """The kernel of `rows` for a dtype, in which each thread computes a row."""
    names = (*code.parameters.operands, *code.parameters.results)
    body = [
        f"const int64_t kit_i = {_ROWS_PER_BLOCK}ll * blockIdx.x + "
        "threadIdx.x;",
        "if (kit_i >= kit_items) return;",
        *(
            f"const auto {name} = kit::SharedRow({OF}{name});"
            if i in code.shared
            else f"const auto {name} = kit::RowOf({OF}{name}, kit_i);"
            for i, name in enumerate(names)
        ),
        *code.code(_here(code)),
    ]
    return CudaSource(
        _program(code, dtype, _ROWS_PER_BLOCK, body),
        SYMBOL,
        _ROWS_PER_BLOCK,
        (code.first, code.kernel_axes[code.first], _ROWS_PER_BLOCK),
    )
