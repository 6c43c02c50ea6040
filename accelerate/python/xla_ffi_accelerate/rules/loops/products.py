"""A few products of small matrices, written out as sums of products."""

from __future__ import annotations

import functools
import math

import jax

from xla_ffi_accelerate._rule import Reason
from xla_ffi_accelerate.rules.handlers import products
from xla_ffi_accelerate.rules.handlers.products import DimensionNumbers, Sizes
from xla_ffi_accelerate.rules.loops import written_out

# Written out, a few products stay in a loop that XLA makes one function of. Up
# to 3 rows and columns XLA itself writes them out.
_MIN_SIDE = 4
_MAX_SIDE = 12
_MAX_PRODUCTS = 4096


def _why_not_written_out(sizes: Sizes, _: str) -> Reason:
    sides = sizes[1:]
    if max(sides) < _MIN_SIDE or min(sides) < 2:
        return "XLA writes products of this size out itself"
    if max(sides) > _MAX_SIDE or math.prod(sizes) > _MAX_PRODUCTS:
        return products.as_fast(*sizes)
    return None


def _write_out(
    lhs: jax.Array,
    rhs: jax.Array,
    *,
    dimension_numbers: DimensionNumbers,
) -> jax.Array:
    contracting, batch = dimension_numbers
    sides: list[jax.Array] = []
    shape = [lhs.shape[i] for i in batch[0]]
    for x, summed, shared in zip((lhs, rhs), contracting, batch, strict=True):
        kept = products.others(x, *summed, *shared)
        shape += [x.shape[i] for i in kept]
        groups = (shared, kept, summed)
        sizes = [math.prod(x.shape[i] for i in axes) for axes in groups]
        order = [i for axes in groups for i in axes]
        sides.append(jax.lax.transpose(x, order).reshape(sizes))
    left, right = sides
    # XLA adds along columns, several of them at once.
    terms = (*left.shape, right.shape[1])
    wide = jax.lax.broadcast_in_dim(left, terms, (0, 1, 2))
    columns = jax.lax.transpose(right, (0, 2, 1))
    deep = jax.lax.broadcast_in_dim(columns, terms, (0, 2, 3))
    # Without the barrier, each use of the product would compute it again.
    product: jax.Array = jax.lax.optimization_barrier((wide * deep).sum(2))
    return product.reshape(shape)


# Whether a product and its sum are rounded once, together, is LLVM's choice for
# each size, and depends on the processor and on what is beside them.
WRITTEN_OUT = written_out.rule(
    products.DOT_GENERAL.primitive,
    functools.partial(products.covers, why_not=_why_not_written_out),
    _write_out,
    in_loops=False,
    priority=-1,
)
