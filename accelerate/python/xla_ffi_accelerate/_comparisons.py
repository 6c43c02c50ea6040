"""The programs of the self-tests: where a rule's bits depend on XLA's order."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import ShapedArray

from xla_ffi_accelerate._rule import Found, Rule, SelfTest
from xla_ffi_accelerate._self_tests import Function, isolated, same_bits

Array: TypeAlias = np.ndarray[tuple[int, ...], np.dtype[np.generic]]
# An operand of a product, by the axis that is summed over.
_Layouts: TypeAlias = dict[int, jax.Array]

# The handler's orders of summation for small matrices, the most frequent first.
ORDERS = (
    "fma",
    "multiply_add",
    "even_odd_fma",
    "fma_then_zero",
    "multiply_add_then_zero",
)
_MATRICES_TESTED = 256


def _comparing(
    function: Function,
    arguments: Callable[[], Sequence[object]],
    trials: Sequence[Found] = ({},),
) -> Callable[[Rule], Found | None]:
    """A test that finds the first trial in which a rule changes no bit."""

    def run(rule: Rule) -> Found | None:
        given = arguments()
        same = (t for t in trials if same_bits(rule, function, *given, trial=t))
        return next(same, None)

    return run


def _normal(*shape: int) -> Array:
    return np.random.default_rng(0).standard_normal(shape, np.float32)


def _near_one() -> Sequence[Array]:
    return (1 + np.random.default_rng(0).standard_normal((2, 4500)) / 8,)


def _along_lines(x: jax.Array) -> list[object]:
    return [
        jax.lax.cumsum(x.astype(dtype)[:, :length], axis)
        for dtype, length in (
            ("float32", 4500),
            ("float32", 12),
            ("bfloat16", 300),
            ("float16", 300),
            ("float64", 300),
        )
        for axis in (1, 0)
    ]


def convolve(x: jax.Array, k: jax.Array) -> jax.Array:
    """A depthwise convolution that XLA hands to its own kernel."""
    return jax.lax.conv_general_dilated(
        *(x, k, (1, 2), ((1, 1), (0, 1))),
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
        feature_group_count=x.shape[-1],
    )


def images() -> tuple[Array, Array]:
    """What is pooled, and the weights of the results."""
    return _normal(2, 13, 14, 3), _normal(2, 6, 14, 3)


def _pool(x: jax.Array, weights: jax.Array) -> jax.Array:
    pooled = jax.lax.reduce_window(
        *(x, -np.inf, jax.lax.max, (1, 4, 3, 1), (1, 2, 1, 1), "SAME")
    )
    return jnp.sum(pooled[:, :6] * weights)


pool_gradient = jax.grad(_pool)


def _multiplied(
    rule: Rule, dtype: np.dtype[np.generic], m: int, k: int, n: int
) -> Found | None:
    """Compares XLA's own products of small matrices with every order."""
    order = isolated(functools.partial(_order, rule, dtype, m, k, n))
    return None if order is None else {"order": order}


def _order(
    rule: Rule, dtype: np.dtype[np.generic], m: int, k: int, n: int
) -> str | None:
    random = np.random.default_rng(0)
    lhs = random.standard_normal((_MATRICES_TESTED, m, k)).astype(dtype)
    rhs = random.standard_normal((_MATRICES_TESTED, k, n)).astype(dtype)
    # Half of them are flushed to zeros; not every order keeps their signs.
    lhs[::2] *= float(np.finfo(str(dtype)).tiny)

    numbers = ((2,), (1,)), ((0,), (0,))

    def every(
        lhs: _Layouts, rhs: _Layouts, again: tuple[_Layouts, _Layouts]
    ) -> tuple[Sequence[object], ...]:
        own = _own_products(lhs, rhs)
        # XLA may make one of a product and of what transposes its result; but
        # not if it has the product already.
        transposed = [x.swapaxes(1, 2) for x in _own_products(*again)]
        kit = [
            rule.call(lhs[2], rhs[1], dimension_numbers=numbers, order=order)
            for order in ORDERS
        ]
        return own, transposed, kit

    # The operands in both layouts, by the axis of the products.
    operands = (
        {2: lhs, 1: np.ascontiguousarray(np.swapaxes(lhs, 1, 2))},
        {1: rhs, 2: np.ascontiguousarray(np.swapaxes(rhs, 1, 2))},
    )
    compiled = jax.jit(every).lower(*operands, operands).compile()
    own, transposed, kit = compiled(*operands, operands)
    found = {np.asarray(x).tobytes() for x in own}
    found |= {np.asarray(x).swapaxes(1, 2).tobytes() for x in transposed}
    # There is more than one if XLA's order depends on the layouts.
    orders = zip(ORDERS, kit, strict=True)
    same = (o for o, x in orders if found == {np.asarray(x).tobytes()})
    return next(same, None)


def _own_products(lhs: _Layouts, rhs: _Layouts) -> list[jax.Array]:
    """The products from operands of every layout."""
    return [
        jax.lax.dot_general(x, y, (((i,), (j,)), ((0,), (0,))))
        for (i, x), (j, y) in itertools.product(lhs.items(), rhs.items())
    ]


SUMS = SelfTest("cumulative sum", _comparing(_along_lines, _near_one))
CONVOLVED = SelfTest(
    "depthwise convolution",
    _comparing(
        convolve,
        lambda: (_normal(2, 6, 9, 35), _normal(3, 3, 1, 35)),
        trials=({"is_fused": 1}, {"is_fused": 0}),
    ),
    depends_on_processor=True,
)
POOLED = SelfTest(
    "gradient of pooling",
    _comparing(pool_gradient, images),
)
# Depends on the release, the processor, the dtype and the sizes.
MULTIPLIED = SelfTest(
    "product of small matrices",
    _multiplied,
    lambda lhs, rhs, *, dimension_numbers: (
        lhs.dtype,
        *product_sizes(lhs, rhs, dimension_numbers)[1:],
    ),
)


def product_sizes(
    lhs: ShapedArray,
    rhs: ShapedArray,
    numbers: tuple[tuple[Sequence[int], Sequence[int]], ...],
) -> tuple[int, int, int, int]:
    """Matrices, rows, products of a sum and columns of a `dot_general`."""
    (contracting, _), (batch, _) = numbers
    count = int(np.prod([lhs.shape[i] for i in batch], dtype=np.int64))
    k = int(np.prod([lhs.shape[i] for i in contracting], dtype=np.int64))
    if not count * k:
        return 0, 0, 0, 0
    return count, lhs.size // (count * k), k, rhs.size // (count * k)
