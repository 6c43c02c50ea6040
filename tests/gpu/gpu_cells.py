"""What the benchmark of the bundle measures, and beside what."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp

from xla_ffi_kit.ops.modular_add import modular_add_op
from xla_ffi_kit.ops.relu import relu_op
from xla_ffi_kit.ops.rms_norm import (
    RESIDUAL,
    WEIGHT,
    rms_norm_bwd_op,
    rms_norm_op,
    rms_norm_recompute_bwd_op,
    rms_norm_weight_bwd_op,
    rms_norm_weight_residual_bwd_op,
)

_ROW_LENGTHS = (64, 256, 1024, 4096, 8192, 16384, 32768, 65536, 262144)
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


def cells(array_bytes: int) -> Iterator[Cell]:
    """All cells; the largest arrays have about `array_bytes`."""
    for label, dtype in _DTYPES.items():
        elements = array_bytes // jnp.dtype(dtype).itemsize
        for n in _ROW_LENGTHS:
            rows = max(1, elements // n)
            x = jax.ShapeDtypeStruct((rows, n), dtype)
            weight = jax.ShapeDtypeStruct((n,), dtype)
            scale = jax.ShapeDtypeStruct((rows,), jnp.float32)
            for name, (kit, xla), operands in (
                ("rms_norm", _op(rms_norm_op, eps=_EPS), (x,)),
                ("rms_norm_bwd", _op(rms_norm_bwd_op), (x, x, scale)),
                (
                    "rms_norm_recompute_bwd",
                    _op(rms_norm_recompute_bwd_op, eps=_EPS),
                    (x, x),
                ),
                ("weight", _op(WEIGHT.op, eps=_EPS), (x, weight)),
                (
                    "weight_bwd",
                    _op(rms_norm_weight_bwd_op),
                    (x, x, scale, weight),
                ),
                (
                    "residual",
                    _op(RESIDUAL.op, eps=_EPS),
                    (x, weight, x),
                ),
                (
                    "residual_bwd",
                    _op(rms_norm_weight_residual_bwd_op),
                    (x, x, scale, weight, x),
                ),
            ):
                yield Cell(f"{name}/{label}/{rows}x{n}", kit, xla, operands)
        flat = jax.ShapeDtypeStruct((elements,), dtype)
        short = jax.ShapeDtypeStruct((128,), dtype)
        yield Cell(f"relu/{label}/{elements}", *_op(relu_op), (flat,))
        yield Cell(
            f"modular_add/{label}/{elements}",
            *_op(modular_add_op),
            (short, flat),
        )
