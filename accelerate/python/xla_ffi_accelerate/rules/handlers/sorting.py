"""Sorting, selecting and scanning rows: any axis is made the last one.

The derivatives, batching and sharding rules of the primitives stay JAX's: they
are applied before anything is lowered.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import ShapedArray

from xla_ffi_accelerate import _break_even, _dtypes
from xla_ffi_accelerate._rule import Reason, Rule, Typed
from xla_ffi_accelerate.libraries import LIBRARIES
from xla_ffi_accelerate.rules.handlers import lines
from xla_ffi_kit import Advanced, FfiOp

# XLA does not sort f32 for top_k: it has a selection of its own, which is as
# fast for fewer elements unless few or many of them are selected.
_FEW_F32 = 16
_MIN_SIZE_F32 = 8192
_MIN_K_F32 = 256
_KEYS = frozenset(_dtypes.REAL)
_PAYLOAD = _KEYS.union(_dtypes.COMPLEX)
_cast = jax.lax.bitcast_convert_type
# The kernels do with the NaNs of bf16 what XLA's sorts do up to jax 0.10: keep
# only the sign. In jax 0.12 they keep the other bits too (verified on both).
KEEPS_BF16_NANS = jax.__version_info__ >= (0, 11)


def _sorted(*x: Typed, num_keys: int) -> tuple[Typed, ...]:
    return x


def _largest(x: Typed, *, k: int) -> tuple[Typed, Typed]:
    shape = (*x.shape[:-1], k)
    indices = jax.ShapeDtypeStruct(shape, np.int32)
    return jax.ShapeDtypeStruct(shape, x.dtype), indices


_RESTORE = Advanced(sharded_kernel_axes="restore")
_sort_op, _top_k_op = (
    FfiOp(
        f"xla_ffi_accelerate.{name}",
        results=results,
        axes=axes,
        libraries=LIBRARIES,
        attributes=attributes,
        advanced=_RESTORE,
    )
    for name, results, axes, attributes in (
        ("sort", _sorted, "(n)->(n)", {}),
        ("top_k", _largest, "(n)->(k),(k)", {"k": None}),
    )
)


def _along(
    axis: int,
    function: Callable[..., jax.Array | Sequence[jax.Array]],
    arrays: Sequence[jax.Array],
) -> list[jax.Array]:
    """A function of rows, of arrays whose rows lie along `axis`."""
    rank = arrays[0].ndim
    if axis == rank - 1:
        return jax.tree.leaves(function(*arrays))
    order = [i for i in range(rank) if i != axis] + [axis]
    rows = [jax.lax.transpose(x, order) for x in arrays]
    back, found = np.argsort(order), jax.tree.leaves(function(*rows))
    return [_laid_out(jax.lax.transpose(x, back)) for x in found]


def _laid_out(x: jax.Array) -> jax.Array:
    """The same array, where XLA cannot see that it was transposed.

    It would add the elements of a transposed array in another order.
    """
    if jnp.issubdtype(x.dtype, np.complexfloating):
        return jax.lax.complex(*map(_laid_out, (x.real, x.imag)))
    if not jnp.issubdtype(x.dtype, np.floating):  # any order has the same sum
        return x
    # The sum of each one; only what calls a kernel has a layout of its own.
    bits = _cast(x, f"uint{x.dtype.itemsize * 8}")[..., None]
    copied = lines.cumulative(1)(bits, reverse=0)
    return _cast(copied[..., 0], x.dtype)


def _covers_sort(
    *avals: ShapedArray, dimension: int, is_stable: bool, num_keys: int
) -> Reason:
    del is_stable  # a stable order is one of those that it may have
    if avals[0].shape[dimension] < 2:
        return "XLA leaves out a sort of rows of one element"
    dtypes = [str(aval.dtype) for aval in avals]
    keys = dtypes[:num_keys]
    kind = "of floats" if keys[0] in _dtypes.FLOATS else "of integers"
    if len(avals) > 1:
        kind = "with payload"
    if not (_KEYS.issuperset(keys) and _PAYLOAD.issuperset(dtypes)):
        return f"the kernel has no {', '.join(dtypes)}"
    return _break_even.unless_worth(f"sort {kind}", avals[0].size)


def _sort(
    *operands: jax.Array, dimension: int, num_keys: int
) -> list[jax.Array]:
    rows = functools.partial(_sort_op, num_keys=num_keys)
    if not KEEPS_BF16_NANS:
        return _along(dimension, rows, operands)
    # bf16 is moved as integers, and compared as f32: no bit of it changes.
    keys = map(_widened, operands[:num_keys])
    payload = map(_bits, operands[num_keys:])
    results = _along(dimension, rows, [*keys, *payload])
    return [
        y if y.dtype == x.dtype else _narrowed(y)
        for x, y in zip(operands, results, strict=True)
    ]


def _bits(x: jax.Array) -> jax.Array:
    return _cast(x, np.uint16) if x.dtype == jnp.bfloat16 else x


def _widened(x: jax.Array) -> jax.Array:
    """A bf16 key as the f32 of the same value, NaNs with the same bits."""
    if x.dtype != jnp.bfloat16:
        return x
    upper = jax.lax.convert_element_type(_bits(x), np.uint32)
    sixteen = jax.lax.full_like(upper, 16)
    return _cast(jax.lax.shift_left(upper, sixteen), np.float32)


def _narrowed(x: jax.Array) -> jax.Array:
    """The bf16 that `_bits` or `_widened` has made `x` of."""
    if x.dtype == np.float32:
        bits = _cast(x, np.uint32)
        sixteen = jax.lax.full_like(bits, 16)
        upper = jax.lax.shift_right_logical(bits, sixteen)
        x = jax.lax.convert_element_type(upper, np.uint16)
    return _cast(x, jnp.bfloat16)


def _covers_top_k(
    x: ShapedArray, *, axis: int, k: object, is_stable: bool = True
) -> Reason:
    """`is_stable`: since jax 0.12."""
    del is_stable  # equal elements come by their index
    dtype = str(x.dtype)
    if not isinstance(k, int):
        return "k is symbolic"
    if k < 1 or x.shape[axis] < 2:
        return "XLA leaves out the selection"
    if reason := _break_even.unless_worth("top_k", x.size):
        return reason
    if (
        dtype == "float32"
        and x.size < _MIN_SIZE_F32
        and _FEW_F32 < k < _MIN_K_F32
    ):
        return (
            f"XLA selects from fewer than {_MIN_SIZE_F32} f32 as fast, for k "
            f"above {_FEW_F32} and below {_MIN_K_F32}"
        )
    if dtype == "bfloat16":
        # By all of their bits, or only by the sign.
        return "XLA's order of bf16 NaNs depends on release and processor"
    return _dtypes.unless_in(_KEYS, dtype)


def _top_k(x: jax.Array, *, axis: int, k: int) -> list[jax.Array]:
    return _along(axis, functools.partial(_top_k_op, k=k), [x])


# Stable, which is one of the orders that `is_stable=False` allows.
SORT = Rule(
    "jax.lax.sort_p",
    _covers_sort,
    _sort,
    target=_sort_op.name,
    folds=True,
    partitions=True,
)
# Equal elements come by their index; likewise.
TOP_K = Rule(
    "jax.lax.top_k_p",
    _covers_top_k,
    _top_k,
    target=_top_k_op.name,
    folds=True,
    partitions=True,
)
