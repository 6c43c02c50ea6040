"""What the benchmark of the bundle measures, and beside what."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp

import xla_ffi_kit
from xla_ffi_kit.ops import modular_add, relu
from xla_ffi_kit.ops.rms_norm import (
    rms_norm_bwd_op,
    rms_norm_op,
    rms_norm_weight_bwd_op,
)

_ROW_LENGTHS = (64, 256, 1024, 4096, 8192, 16384, 32768, 65536)
_ROW_LENGTHS += (131072, 262144, 524288)
_ROW_LENGTHS += (1000, 3072, 5120, 6144, 12288, 28672)  # no powers of two
_MOST_BYTES_OF_A_ROW = 1 << 20
# Of so many bytes on, arrays are twice as large, so that there are rows enough.
_LONG_ROW = 256 << 10
# Rows of 8192 when a model decodes.
_FEW_ROWS = (1, 4, 16, 64, 256)
_DTYPES = {"f32": "float32", "bf16": "bfloat16"}
_EPS = 1e-6


@dataclasses.dataclass(frozen=True)
class Cell:
    """One line of the benchmark.

    Attributes:
      name: operation/dtype/shape.
      kit: the operation, as it is used.
      xla: the same by XLA's own code: its reference.
      operands: shapes and dtypes.
    """

    name: str
    kit: Callable[..., Any]
    xla: Callable[..., Any]
    operands: tuple[jax.ShapeDtypeStruct, ...]

    @property
    def operation(self) -> str:
        """The first part of the name."""
        return self.name.partition("/")[0]

    @property
    def bytes(self) -> int:
        """What a call reads and writes, at least."""
        arrays = [
            *self.operands,
            *jax.tree.leaves(jax.eval_shape(self.xla, *self.operands)),
        ]
        return sum(x.size * x.dtype.itemsize for x in arrays)


def _op(op: Any, **attributes: Any) -> tuple[Any, Any]:
    return (
        lambda *operands: op(*operands, **attributes),
        lambda *operands: op.reference(*operands, **attributes),
    )


def _rms_norms(label: str, dtype: str, rows: int, n: int) -> Iterator[Cell]:
    x = jax.ShapeDtypeStruct((rows, n), dtype)
    weight = jax.ShapeDtypeStruct((n,), dtype)
    scale = jax.ShapeDtypeStruct((rows,), jnp.float32)
    for name, (kit, xla), operands in (
        ("rms_norm", _op(rms_norm_op, eps=_EPS), (x,)),
        ("rms_norm_bwd", _op(rms_norm_bwd_op), (x, x, scale)),
        (
            "rms_norm_recompute_bwd",
            _op(rms_norm_bwd_op, eps=_EPS),
            (x, x),
        ),
        ("weight", _op(rms_norm_op, eps=_EPS), (x, weight)),
        ("weight_bwd", _op(rms_norm_weight_bwd_op), (x, x, scale, weight)),
        ("residual", _op(rms_norm_op, eps=_EPS), (x, weight, x)),
        (
            "residual_bwd",
            _op(rms_norm_weight_bwd_op),
            (x, x, scale, weight, x),
        ),
    ):
        yield Cell(f"{name}/{label}/{rows}x{n}", kit, xla, operands)


def _training_step(norm: Callable[..., Any]) -> Callable[..., Any]:
    """The gradient of a layer with a norm, two products and a residual."""

    def loss(weight: Any, up: Any, down: Any, x: Any) -> Any:
        h = x + jax.nn.gelu(norm(x, weight) @ up) @ down
        return jnp.mean(h.astype(jnp.float32) ** 2)

    return jax.grad(loss, argnums=(0, 1, 2))


def _plain_norm(x: Any, weight: Any) -> Any:
    wide = x.astype(jnp.float32)
    scale = jax.lax.rsqrt(jnp.mean(wide**2, -1, keepdims=True) + _EPS)
    return (wide * scale).astype(x.dtype) * weight


def _step_cell(width: int) -> Cell:
    shapes = ((width,), (width, 4 * width), (4 * width, width), (8192, width))
    return Cell(
        f"training_step/bf16/8192x{width}",
        _training_step(lambda x, w: xla_ffi_kit.rms_norm(x, w, eps=_EPS)),
        _training_step(_plain_norm),
        tuple(jax.ShapeDtypeStruct(shape, "bfloat16") for shape in shapes),
    )


def cells(array_bytes: int) -> Iterator[Cell]:
    """All cells; the largest arrays have about `array_bytes`."""
    for label, dtype in _DTYPES.items():
        size = jnp.dtype(dtype).itemsize
        elements = array_bytes // size
        for n in _ROW_LENGTHS:
            if n * size <= _MOST_BYTES_OF_A_ROW:
                times = 2 if n * size >= _LONG_ROW else 1
                rows = max(1, times * elements // n)
                yield from _rms_norms(label, dtype, rows, n)
        flat = jax.ShapeDtypeStruct((elements,), dtype)
        short = jax.ShapeDtypeStruct((128,), dtype)
        yield Cell(f"relu/{label}/{elements}", *_op(relu), (flat,))
        yield Cell(
            f"modular_add/{label}/{elements}",
            *_op(modular_add),
            (short, flat),
        )
    for rows in _FEW_ROWS:
        yield from _rms_norms("bf16", "bfloat16", rows, 8192)
    for width in (512, 4096):
        yield _step_cell(width)
