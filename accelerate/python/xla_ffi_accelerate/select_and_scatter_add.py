"""Lowers the gradient of max and min pooling to the kit's handler."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import ShapedArray
from jax.interpreters.mlir import LoweringRuleContext, ir

from xla_ffi_accelerate import _jax_rules, _plain, _self_test
from xla_ffi_accelerate._jax import Primitive
from xla_ffi_accelerate._rule import Lowered, Result
from xla_ffi_accelerate.libraries import CPU_LIBRARY
from xla_ffi_kit import lowering

# Break-even: windows of fewer elements in all take XLA's own code no longer
# than a custom call.
_MIN_ELEMENTS = 512
# The kernel looks at a window's elements one by one.
_MAX_WINDOW = 1024


class SelectAndScatterAdd:
    """The rule of `select_and_scatter_add_p`."""

    RESULT: Result = "exact"
    TARGET = "xla_ffi_accelerate.select_and_scatter_add"
    PARAMETERS = (
        frozenset(
            {"padding", "select_prim", "window_dimensions", "window_strides"}
        ),
    )

    # Releases of jaxlib in which an element's sum has its windows in row-major
    # order.
    VERIFIED = frozenset({"0.8.1", "0.9.2", "0.10.2", "0.12.0.1"})

    def self_test(self) -> bool:
        """Whether XLA adds in the order of the windows."""
        random = np.random.default_rng(0)
        x = random.standard_normal((2, 13, 14, 3)).astype(np.float32)
        weights = random.standard_normal((2, 6, 14, 3)).astype(np.float32)

        def pool(x: jax.Array, weights: jax.Array) -> jax.Array:
            pooled = jax.lax.reduce_window(
                x, -np.inf, jax.lax.max, (1, 4, 3, 1), (1, 2, 1, 1), "SAME"
            )
            return jnp.sum(pooled[:, :6] * weights)

        return _self_test.same_bits(self, jax.grad(pool), x, weights)

    def primitive(self) -> Primitive:
        """Of JAX, which has no public name for it."""
        return _jax_rules.lowered_primitive("select_and_scatter_add")

    def covers(
        self,
        avals: Sequence[ShapedArray],
        *,
        select_prim: Primitive,
        padding: Sequence[tuple[int, int]],
        window_dimensions: Sequence[int],
        window_strides: Sequence[int],
    ) -> bool:
        """Whether one or two adjacent dimensions of floats are pooled."""
        source, operand = avals
        window = math.prod(window_dimensions)
        return (
            select_prim.name in ("ge", "le")
            and str(operand.dtype) in ("float32", "float64")
            and _match(
                operand.shape,
                source.shape,
                padding,
                window_dimensions,
                window_strides,
            )
            is not None
            and all(
                0 <= low < size and 0 <= high < size
                for (low, high), size in zip(
                    padding, window_dimensions, strict=True
                )
            )
            and window <= _MAX_WINDOW
            and window * source.size >= _MIN_ELEMENTS
        )

    def partitions(self, avals: Sequence[ShapedArray], **_: object) -> bool:
        """No: the operands are reshaped."""
        return False

    def lower(
        self,
        ctx: LoweringRuleContext,
        *operands: ir.Value,
        select_prim: Primitive,
        padding: Sequence[tuple[int, int]],
        window_dimensions: Sequence[int],
        window_strides: Sequence[int],
    ) -> Lowered:
        """Lowers a gradient that the handler covers."""
        lowering.register(CPU_LIBRARY, self.TARGET)
        source, operand = lowering.shaped(ctx.avals_in)
        pool = _match(
            operand.shape,
            source.shape,
            padding,
            window_dimensions,
            window_strides,
        )
        assert pool is not None  # what is covered matches

        def call(source: jax.Array, operand: jax.Array) -> list[jax.Array]:
            images = jax.ShapeDtypeStruct(pool.shape, operand.dtype)
            result = jax.ffi.ffi_call(self.TARGET, images)(
                source.reshape(pool.pooled_shape),
                operand.reshape(pool.shape),
                window=np.array(pool.window, np.int64),
                strides=np.array(pool.strides, np.int64),
                padding=np.array(pool.padding, np.int64),
                is_min=np.int64(select_prim.name == "le"),
            )
            return [result.reshape(operand.shape)]

        return _plain.lower(call, ctx, *operands)


@dataclasses.dataclass(frozen=True)
class _Pool:
    """A gradient as the handler has it: of images with channels."""

    shape: tuple[int, ...]
    pooled_shape: tuple[int, ...]
    window: tuple[int, int]
    strides: tuple[int, int]
    padding: tuple[int, int]


def _match(
    shape: Sequence[int],
    pooled: Sequence[int],
    padding: Sequence[tuple[int, int]],
    window: Sequence[int],
    strides: Sequence[int],
) -> _Pool | None:
    """The images, unless other dimensions than two adjacent ones are pooled."""
    own = [
        i
        for i in range(len(shape))
        if (window[i], strides[i], tuple(padding[i])) != (1, 1, (0, 0))
    ]
    if not own or own[-1] - own[0] > 1:
        return None
    first, end = own[0], own[-1] + 1
    one = (1,) * (2 - len(own))  # a single row

    def images(sizes: Sequence[int]) -> tuple[int, ...]:
        lead, rest = math.prod(sizes[:first]), math.prod(sizes[end:])
        return (lead, *one, *sizes[first:end], rest)

    return _Pool(
        shape=images(shape),
        pooled_shape=images(pooled),
        window=(*one, *window[first:end]),  # type: ignore[arg-type]
        strides=(*one, *strides[first:end]),  # type: ignore[arg-type]
        padding=(  # type: ignore[arg-type]
            *(0 for _ in one),
            *(low for low, _ in padding[first:end]),
        ),
    )
