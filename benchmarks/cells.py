"""What is compared: operations in every dtype, shape, direction and regime.

A cell's name says all of it, "rms_norm/fwd/f32/1024x1024/fresh", and selects
it on the command line. Regimes:

  fresh           one call from Python, the result in new memory
  eager           the same, not compiled by the caller: with what the function
                  does in Python
  donated         the operand's memory is given up for the result
  context         between elementwise operations, which XLA fuses with its own
  grad            the gradient alone of a loss linear in the result
  value_and_grad  the mean squared error from other data, with its gradient
  cubic           a sum of cubes, with its gradient: XLA computes all of it from
                  x, again and again, in fusions that a custom call interrupts
  chain           a hundred dependent calls in one program: small arrays, whose
                  calls from Python would measure XLA's dispatch instead;
                  between any two an empty call, or XLA fuses its own

In context, and with a gradient, "copy" stands where the operation does: the
least that any custom call costs there.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import baseline_ops
import xla_ffi_kit
from bench.measure import Cell, Made
from xla_ffi_kit import FfiOp
from xla_ffi_kit.ops.rms_norm import rms_norm_op

Function = Callable[..., Any]
Shape = tuple[int, ...]
CHAIN = 100

DTYPES = {
    "f32": "float32",
    "bf16": "bfloat16",
    "f16": "float16",
    "f64": "float64",
    "c64": "complex64",
    "c128": "complex128",
}
SHAPES = ((8, 4), (1024, 1024), (4096, 4096), (64, 65536), (65536, 64))
SMALL = ((16, 64), (64, 256))  # 1 and 16 thousand elements
SWEEP = tuple((2**k, 1024) for k in range(0, 15, 2))


@dataclasses.dataclass(frozen=True)
class Operation:
    """The same operation as everybody has it.

    Attributes:
      name: the operation's.
      xla: in JAX.
      kit: the kit's.
      tutorial: the plain loop.
      in_place: the kit's, with the last operand's memory for its result.
      shapes: those of the operands, from the last one's.
    """

    name: str
    xla: Function
    kit: Function
    tutorial: Function | None
    in_place: Function | None
    shapes: Callable[[Shape], tuple[Shape, ...]]

    def operands(self, shape: Shape, dtype: str) -> tuple[jax.Array, ...]:
        shapes = self.shapes(shape)
        return tuple(data(s, dtype, seed) for seed, s in enumerate(shapes))


def data(shape: Shape, dtype: str, seed: int) -> jax.Array:
    """Normal numbers; both components of a complex one."""
    random = np.random.default_rng(seed)
    x = random.standard_normal(shape, np.float32)
    if dtype.startswith("complex"):
        x = x + 1j * random.standard_normal(shape, np.float32)
    return jnp.asarray(x, dtype)


def _in_place(op: FfiOp) -> Function:
    """`op` with the last operand's memory for its result."""
    return FfiOp(
        f"{op.name}_in_place",
        op.reference,
        kernel_axes=op.spec.kernel_axes[-1],
        handlers=op.spec.handlers,
        libraries=op.spec.libraries,
        aliases={op.spec.operand_names[-1]: 0},
    )


def _rms_norm_xla(x: jax.Array) -> jax.Array:
    return rms_norm_op.reference(x, eps=1e-6)


RMS_NORM = Operation(
    "rms_norm",
    _rms_norm_xla,
    xla_ffi_kit.rms_norm,
    baseline_ops.rms_norm,
    functools.partial(xla_ffi_kit.rms_norm, in_place=True),
    lambda shape: (shape,),
)
RELU = Operation(
    "relu",
    xla_ffi_kit.relu.reference,
    xla_ffi_kit.relu,
    baseline_ops.relu,
    _in_place(xla_ffi_kit.relu),
    lambda shape: (shape,),
)
MODULAR_ADD = Operation(
    "modular_add",
    xla_ffi_kit.modular_add.reference,
    xla_ffi_kit.modular_add,
    baseline_ops.modular_add,
    _in_place(xla_ffi_kit.modular_add),
    lambda shape: ((*shape[:-1], max(shape[-1] // 8, 1)), shape),
)


def _xla_weighted(x: jax.Array, w: jax.Array) -> jax.Array:
    return _rms_norm_xla(x) * w


# y, total = rms_norm(x, w, residual=r): what a transformer's block begins with.
FUSED = Operation(
    "rms_norm_residual",
    lambda w, r, x: (_xla_weighted(x + r, w), x + r),
    lambda w, r, x: xla_ffi_kit.rms_norm(x, w, residual=r),
    lambda w, r, x: (baseline_ops.rms_norm(x + r) * w, x + r),
    None,
    lambda shape: (shape[-1:], shape, shape),
)


_LOSSES: dict[str, Callable[[jax.Array, jax.Array], jax.Array]] = {
    "grad": jnp.vdot,
    "value_and_grad": lambda y, data: jnp.mean((y - data) ** 2),
    # Not of squares, whose sum normalization hardly changes.
    "cubic": lambda y, _: jnp.sum(y**3),
}


def _loss(function: Function, of_result: Function) -> Function:
    def loss(*operands: Any) -> jax.Array:
        *operands, other = operands
        results = jax.tree.leaves(function(*operands))
        return sum(of_result(y, other) for y in results)

    return loss


def _transformed(function: Function, regime: str, count: int) -> Function:
    """`function` as the regime calls it."""
    if regime == "context":
        return lambda *p: function(*p[:-1], p[-1] * 0.5) * 2 + p[-1]
    if regime in _LOSSES:
        transform = jax.grad if regime == "grad" else jax.value_and_grad
        every = tuple(range(count))
        return transform(_loss(function, _LOSSES[regime]), every)
    if regime == "chain":

        def chain(*operands: Any) -> Any:
            *others, x = operands
            for _ in range(CHAIN):
                x = baseline_ops.barrier(function(*others, x))
            return x

        return chain
    return function


def _contestants(
    op: Operation, direction: str, regime: str, operands: tuple[Any, ...]
) -> Made:
    baseline_ops.register()
    functions = {"xla": op.xla, "kit": op.kit}
    if op.tutorial is not None:
        functions["tutorial"] = op.tutorial
    if regime == "donated":
        functions["kit"] = op.in_place
    made = {}
    # Not an operand itself: the gradient along x is almost zero.
    last = operands[-1]
    cotangent = data(last.shape, str(last.dtype), seed=len(operands))
    for name, function in functions.items():
        if direction == "bwd":
            # The residuals are each contestant's own, as in training.
            _, pullback = jax.jit(functools.partial(jax.vjp, function))(
                *operands
            )
            made[name] = (
                jax.jit(lambda pull, ct: pull(ct)[-1]),
                (pullback, cotangent),
            )
        else:
            donate = (len(operands) - 1,) if regime == "donated" else ()
            made[name] = (
                jax.jit(
                    _transformed(function, regime, len(operands)),
                    donate_argnums=donate,
                ),
                (*operands, cotangent) if regime in _LOSSES else operands,
            )
    return made | _bounds(direction, regime, operands, cotangent)


def _bounds(
    direction: str,
    regime: str,
    operands: tuple[Any, ...],
    cotangent: jax.Array,
) -> Made:
    """What no handler can be faster than."""
    if regime == "chain":
        return {}
    copies: dict[str, Function] = {
        "copy": baseline_ops.copy,
        "copy, huge pages": baseline_ops.copy_to_huge_pages,
    }
    moved = (cotangent, *operands) if direction == "bwd" else operands
    if regime == "context" or regime in _LOSSES:
        if len(operands) > 1:  # no copy has these gradients
            return {}
        copies = {
            name: _transformed(function, regime, 1)
            for name, function in copies.items()
        }
        moved = operands if regime == "context" else (*operands, cotangent)
    copies["empty call"] = baseline_ops.empty
    return {name: (jax.jit(f), moved) for name, f in copies.items()}


_TOLERANCE = {
    "f32": 1e-4,
    "f64": 1e-9,
    "bf16": 4e-2,
    "f16": 1e-2,
    "c64": 1e-4,
    "c128": 1e-9,
}


def _cell(
    op: Operation, direction: str, dtype: str, shape: Shape, regime: str
) -> Cell:
    types = [jax.ShapeDtypeStruct(s, DTYPES[dtype]) for s in op.shapes(shape)]
    results = jax.tree.leaves(jax.eval_shape(op.xla, *types))
    arrays = [*types, *results]
    if direction == "bwd":
        arrays.append(types[-1])
    # Squares in f16 overflow in XLA's code and in the loop; and after a
    # hundred calls 16 bits have gone their own ways.
    is_rough = dtype in ("f16", "bf16") and (
        regime != "fresh" or op.name.startswith("rms")
    )
    return Cell(
        f"{op.name}/{direction}/{dtype}/{'x'.join(map(str, shape))}/{regime}",
        sum(a.size * a.dtype.itemsize for a in arrays),
        lambda: _contestants(
            op, direction, regime, op.operands(shape, DTYPES[dtype])
        ),
        CHAIN if regime == "chain" else 1,
        None if is_rough else _TOLERANCE[dtype],
    )


def kit_cells() -> Iterator[Cell]:
    """Every cell of the kit's operations."""
    for dtype in DTYPES:
        for shape in SHAPES:
            for direction in ("fwd", "bwd"):
                yield _cell(RMS_NORM, direction, dtype, shape, "fresh")
        for shape in SMALL:
            yield _cell(RMS_NORM, "fwd", dtype, shape, "chain")
    for shape in SHAPES[1:]:
        for regime in ("donated", "context", *_LOSSES):
            yield _cell(RMS_NORM, "fwd", "f32", shape, regime)
        for dtype in ("f32", "bf16"):
            yield _cell(FUSED, "fwd", dtype, shape, "fresh")
            yield _cell(FUSED, "fwd", dtype, shape, "value_and_grad")
    for op in (RELU, MODULAR_ADD):
        for dtype in ("f32", "bf16", "f16", "f64"):
            for shape in SHAPES:
                yield _cell(op, "fwd", dtype, shape, "fresh")
            for shape in SMALL:
                yield _cell(op, "fwd", dtype, shape, "chain")
        yield _cell(op, "fwd", "f32", SHAPES[2], "donated")
    for shape in SWEEP:
        found = _cell(RMS_NORM, "fwd", "f32", shape, "fresh")
        yield dataclasses.replace(found, name=f"sweep/{found.name}")
