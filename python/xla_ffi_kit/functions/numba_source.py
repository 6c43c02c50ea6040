"""Compiles a numba kernel as a C function of arrays.

The handler gives such a function addresses and sizes. Around the kernel stands
Python that makes arrays of them. It is source code, because numba specializes
on the numbers of operands and axes only where they are literals.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from types import ModuleType
from typing import Protocol, cast

import numpy as np


@dataclasses.dataclass(frozen=True)
class Arrays:
    """The operands, results and attributes of a call of the operation."""

    name: str
    operand_axes: tuple[int, ...]
    result_axes: tuple[int, ...]
    attributes: Mapping[str, np.dtype | tuple[np.dtype]]  # a tuple: arrays
    dtypes: tuple[np.dtype, ...]

    def __str__(self) -> str:
        dtypes = ", ".join(dtype.name for dtype in self.dtypes)
        return (
            f"{len(self.operand_axes)} operands and {len(self.result_axes)} "
            f"results of one dtype of {dtypes}, and {len(self.attributes)} "
            "attributes of the declared types"
        )


class CFunction(Protocol):
    """The type of the result of `numba.cfunc`."""

    @property
    def address(self) -> int:
        """The address of the C function."""


def element(declared: np.dtype | tuple[np.dtype]) -> np.dtype:
    """The dtype of an attribute, or of its elements."""
    return declared[0] if isinstance(declared, tuple) else declared


def compile_functions(
    numba: ModuleType, kernel: Callable[..., None], arrays: Arrays
) -> dict[np.dtype, CFunction]:
    """The C functions of a kernel, by dtype.

    Each takes addresses and sizes: of an operand or result the number of rows,
    then its own axes; of an attribute the number of elements. It returns 1 if
    the kernel raised. Keep them alive as long as XLA may call them.
    """
    types = numba.types
    number_of = numba.np.numpy_support.from_dtype
    if not numba.extending.is_jitted(kernel):
        kernel = numba.njit(nogil=True)(kernel)
    names: dict[str, object] = {"kernel": kernel, "carray": numba.carray}
    for i, declared in enumerate(arrays.attributes.values()):
        names[f"attribute{i}"] = number_of(element(declared))
    file = f"<numba kernel {arrays.name}>"
    code = compile(_source(arrays), file, "exec")
    cfunc = numba.cfunc(
        types.int64(types.CPointer(types.voidptr), types.CPointer(types.int64)),
        nopython=True,
    )
    made = {}
    for dtype in arrays.dtypes:
        own = {**names, "dtype": number_of(dtype)}
        exec(code, own)
        made[dtype] = cast(CFunction, cfunc(own["function"]))
    return made


def _source(arrays: Arrays) -> str:
    return f"""\
def function(data, sizes):
    try:
        kernel({", ".join(_arguments(arrays))})
    except Exception:
        return 1
    return 0
"""


def _arguments(arrays: Arrays) -> Iterator[str]:
    """The kernel's arguments: operands, attributes, results."""
    size = 0  # the first of the next argument
    at = 0
    for axes in (*arrays.operand_axes, None, *arrays.result_axes):
        if axes is not None:
            shape = "".join(f"sizes[{size + i}], " for i in range(axes + 1))
            yield f"carray(data[{at}], ({shape}), dtype)"
            size, at = size + axes + 1, at + 1
            continue
        for i, declared in enumerate(arrays.attributes.values()):
            found = f"carray(data[{at}], (sizes[{size}],), attribute{i})"
            yield found if isinstance(declared, tuple) else f"{found}[0]"
            size, at = size + 1, at + 1
