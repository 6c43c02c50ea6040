"""`cuda` makes an operation from a CUDA kernel and its launch dimensions."""

from __future__ import annotations

import dataclasses
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, TypeAlias, Unpack

import jax
import numpy as np

from xla_ffi_kit import _check
from xla_ffi_kit._check import Typed
from xla_ffi_kit.errors import BuildError
from xla_ffi_kit.ffi_op import Decorator, FfiOp, R
from xla_ffi_kit.op.spec import Advanced, Options, Request
from xla_ffi_kit.strings.cuda.kernel import StringKernel, sizes
from xla_ffi_kit.strings.cuda.source import CudaSource, on_devices
from xla_ffi_kit.strings.text import element_types, references
from xla_ffi_kit.strings.text.element_types import DTypes
from xla_ffi_kit.strings.text.source import Place, place_of

# Blocks or threads along up to three axes, or a function that returns them. It
# is called with operands that have a shape and a dtype, and with the attributes
# by keyword.
Geometry: TypeAlias = int | Sequence[int] | Callable[..., int | Sequence[int]]
_WARP = 32
_REDUCTION = re.compile(r"\b(?:warp|block)_(?:reduce|sum|max|min)\b")


def cuda(
    code: str,
    *,
    grid: Geometry,
    block: Geometry,
    shared_memory: int | Callable[..., int] = 0,
    kernel_axes: int | None = None,
    dtypes: DTypes | None = None,
    function: str | None = None,
    flags: Sequence[str] = (),
    **options: Unpack[Options],
) -> Decorator:
    """Makes an operation from a reference and a CUDA kernel, without nvcc.

    The decorated function is the reference of an `FfiOp`, which runs on all
    other platforms. The `__global__` function of the same name computes the
    operation on CUDA. NVRTC, which JAX's CUDA wheels contain, compiles it when
    the operation is first lowered there.

    The kernel takes its parameters in the reference's order: `kit::In<T>` for
    an operand, and `double`, `int64_t`, `bool`, `kit::Array<T>` or
    `kit::String` for an attribute, or the type that `attributes` declares. Then
    it takes a `kit::Out<T>` for each result. Arrays have `size()`, `dim(i)`,
    `rows()`, `columns()`, `row(i)` and `[i]`.

    `kit::block_sum(v)`, `block_max`, `block_min`, `warp_sum`, `warp_max` and
    `warp_min` reduce over threads. `kit::shared_memory<T>()` is the dynamic
    shared memory of the block. `Advanced.workspace` provides scratch memory.

    Example:
      @xla_ffi_kit.cuda(r'''
      template <typename T>
      __global__ void row_norm(kit::In<T> x, kit::Out<T> y) {
        float sum = 0;
        for (int64_t i = threadIdx.x; i < x.columns(); i += blockDim.x)
          sum += x.row(blockIdx.x)[i] * x.row(blockIdx.x)[i];
        sum = kit::block_sum(sum);
        if (threadIdx.x == 0) y[blockIdx.x] = std::sqrt(sum);
      }''', grid=lambda x: x.size // x.shape[-1], block=256, kernel_axes=1,
      dtypes="f32 bf16")
      def row_norm(x):
          return jnp.sqrt(jnp.sum(x * x, -1))

    Args:
      code: the CUDA code, which is the kernel and everything it needs.
      grid: the number of blocks along up to three axes, or a function that
        returns it. The function is called with the operands, which have only
        `shape`, `dtype`, `size` and `ndim`, and with the attributes by keyword.
        Shapes include batch axes; on a mesh they are those of one device. If
        the grid has no blocks, nothing is launched.
      block: the number of threads of a block along up to three axes, or such a
        function.
      shared_memory: the dynamic shared memory of a block in bytes, or such a
        function. The keyword `shared` is something else: as for `FfiOp`, it
        names the operands without batch axes.
      kernel_axes: the number of trailing axes of every operand that the kernel
        needs whole; `axes` tells operands apart.
      dtypes: the dtypes that the operands may have, as for `FfiOp`. By default,
        these are the dtypes for which the kernel compiles.
      function: the name of the kernel. It defaults to the reference's.
      flags: options for NVRTC, such as "-DSTEPS=4".
      **options: all other keywords of `FfiOp`.

    Returns:
      A decorator that makes an `FfiOp`. Its operands have the shape (...,
      kernel axes) and one of `dtypes`; its results are the reference's.

    Raises:
      BuildError: the code does not compile, the kernel takes other parameters,
        or NVRTC (https://docs.nvidia.com/cuda/nvrtc) is missing. It is raised
        when the operation is lowered for CUDA.
      TypeError, ValueError: an option does not fit the reference, as for
        `FfiOp`, when it is decorated; when it is lowered, a grid, a block or
        shared memory that no GPU has.
    """
    place = place_of(code, sys._getframe(1))

    def decorate(reference: Callable[..., R]) -> FfiOp[R]:
        symbol, name = references.names(reference, function, "the kernel")
        operands, _ = references.parameter_names(reference)
        declared = options.get("attributes") or {}
        advanced = options.get("advanced") or Advanced()
        types = references.attribute_types(name, reference, declared)
        kernel = BlockKernel(
            name=name,
            attributes=tuple(types),
            operands=len(operands),
            flags=_check.sequence(f"{name}: flags", flags),
            is_required=True,
            code=code,
            place=place,
            function=symbol,
            attribute_types=tuple(
                on_devices(
                    element_types.cpp_attribute(f"{name}: attribute {k}", t)
                )
                for k, t in types.items()
            ),
            grid=grid,
            block=block,
            shared_memory=shared_memory,
            has_workspace="cuda" in advanced.workspace,
        )
        op_dtypes = None
        if dtypes is not None:
            instances = element_types.instances(name, dtypes)
            op_dtypes = [[d.name for d in instance] for instance in instances]
        op_options = options.copy()
        op_options["attributes"] = types
        op_options["handlers"] = {
            "cuda": kernel,
            **(options.get("handlers") or {}),
        }
        return FfiOp(
            name,
            reference,
            kernel_axes=kernel_axes,
            dtypes=op_dtypes,
            **op_options,
        )

    return decorate


@dataclasses.dataclass(frozen=True)
class BlockKernel(StringKernel):
    """A kernel with the author's launch dimensions.

    Attributes:
      code: the author's code.
      place: where the code stands in the author's file.
      function: the kernel's name.
      attribute_types: the C++ types of the attributes.
      grid: see `cuda`.
      block: see `cuda`.
      shared_memory: see `cuda`.
      has_workspace: whether the kernel has one more result, the scratch memory.
    """

    needs_shapes: ClassVar[bool] = True

    code: str = ""
    place: Place = dataclasses.field(default_factory=lambda: Place("", 1))
    function: str = ""
    attribute_types: Sequence[str] = ()
    grid: Geometry = 1
    block: Geometry = 1
    shared_memory: int | Callable[..., int] = 0
    has_workspace: bool = False

    def source(self, request: Request) -> CudaSource:
        """The function, or the template's instance for these dtypes."""
        results = [self._type("kit::Out", r) for r in request.results]
        if self.has_workspace:
            results.append("kit::Out<uint8_t>")
        types = [
            *(self._type("kit::In", x) for x in request.operands),
            *self.attribute_types,
            *results,
        ]
        pointer = f"static_cast<void (*)({', '.join(types)})>(&{self.function})"
        text = "\n".join(
            [
                '#include "xla_ffi/strings/cuda/kit.h"',
                f"{self.place.directive()}{self.code}",
                # An error here is about the parameters.
                Place(f"<kernel of {self.name}>", 1).directive()
                + f"using kit_kernel = decltype({pointer});",
                "",
            ]
        )
        return CudaSource(text, pointer)

    def _type(self, template: str, array: Typed) -> str:
        dtype = np.dtype(array.dtype)
        if dtype.name not in element_types.names():
            raise BuildError(
                f"{self.name}: dtypes: expected of "
                f"{', '.join(element_types.names())}, got {dtype.name}"
            )
        return f"{template}<{element_types.cpp_type(dtype)}>"

    def buffers(self, request: Request) -> int:
        """Returns the number of results that the kernel writes."""
        return len(request.results) + self.has_workspace

    def launch(
        self,
        source: CudaSource,
        attributes: Mapping[str, object],
        operands: Sequence[Typed],
    ) -> Mapping[str, object]:
        """Calls the author's functions for grid, block and shared memory."""
        if not _check.is_static(*(x.shape for x in operands)):
            raise TypeError(
                f"{self.name}: grid: expected sizes that are known, got "
                "symbolic ones; export the program with the sizes it runs with"
            )
        types = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in operands]

        def numbers(option: str, geometry: object) -> tuple[int, ...]:
            value = geometry
            if callable(geometry):
                value = geometry(*types, **attributes)
            axes = value if isinstance(value, tuple | list) else (value,)
            if not 1 <= len(axes) <= 3 or not all(
                isinstance(n, int | np.integer) and n >= 0 for n in axes
            ):
                raise ValueError(
                    f"{self.name}: {option}: expected one to three numbers, "
                    f"got {value!r}"
                )
            return tuple(int(n) for n in axes)

        grid, block = numbers("grid", self.grid), numbers("block", self.block)
        threads = int(np.prod(block))
        if not 1 <= threads <= 1024:
            raise ValueError(
                f"{self.name}: block: expected 1 to 1024 threads, got {threads}"
            )
        if threads % _WARP and _REDUCTION.search(self.code):
            raise ValueError(
                f"{self.name}: block: expected a multiple of {_WARP} threads, "
                f"as sums over warps and blocks need, got {threads}"
            )
        return {
            "grid": sizes(*grid, *(1,) * (3 - len(grid))),
            "block": sizes(*block, *(1,) * (3 - len(block))),
            "shared": np.int64(numbers("shared_memory", self.shared_memory)[0]),
        }
