"""Tests how this release of XLA computes, if a rule's bits depend on it.

The table lists what is verified. On any other release, a rule is compared with
XLA's own code when a program that it covers is first lowered. The test runs on
the CPU with JAX's defaults, on a separate thread, so that contexts of the
caller (a mesh, a trace, a transfer guard) do not affect it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias, TypeVar

import jax
import jax.numpy as jnp
import jaxlib
import numpy as np
from jax.core import ShapedArray

from xla_ffi_accelerate import _handler, _jax, _processor, _setting
from xla_ffi_accelerate._rule import Found, Rule, SelfTest
from xla_ffi_accelerate._setting import OFF, Setting

T = TypeVar("T")
Array: TypeAlias = np.ndarray[tuple[int, ...], np.dtype[np.generic]]
Function: TypeAlias = Callable[..., object]
# An operand of a product, by the axis that is summed over.
_Layouts: TypeAlias = dict[int, jax.Array]

_AGREES: Mapping[str, Found | None] = dict.fromkeys(
    ("0.8.1", "0.9.2", "0.10.2", "0.12.0.1"), {}
)
# Test -> release of jaxlib -> what the test finds there; None if XLA computes
# in an order that the rule does not have.
VERIFIED: Mapping[str, Mapping[str, Found | None]] = {
    # A tree of blocks of 16.
    "cumulative sum": _AGREES,
    # Whether a product and a sum are rounded once, together. Verified on a CPU
    # with AVX-512; XLA's kernels for others may differ.
    "depthwise convolution": {
        "0.8.1": None,
        "0.9.2": {"is_fused": 1},
        "0.10.2": {"is_fused": 0},
        "0.12.0.1": {"is_fused": 1},
    },
    # The windows of an element in row-major order.
    "gradient of pooling": _AGREES,
    # Added in their order; a product and a sum are rounded once, together.
    # Verified on CPUs with AVX-512.
    "few products": _AGREES,
    # Products are rounded, and added in the order of the elements.
    "sparse product": _AGREES,
}
# The handler's orders of summation for small matrices, the most frequent first.
ORDERS = (
    "fma",
    "multiply_add",
    "even_odd_fma",
    "fma_then_zero",
    "multiply_add_then_zero",
)
_MATRICES_TESTED = 256
_FEW = ((4, 4, 4), (7, 7, 7), (2, 7, 5), (5, 6, 2))


@dataclasses.dataclass(frozen=True)
class Failure:
    """Why a test did not pass.

    Attributes:
      reason: a sentence.
      is_news: whether it is unexpected, and the user has to know.
    """

    reason: str
    is_news: bool


_found: dict[tuple[Rule, tuple[object, ...]], Found | Failure] = {}


def find(
    rule: Rule, avals: Sequence[ShapedArray], parameters: dict[str, object]
) -> Found | Failure:
    """Returns what the rule has to know of XLA for a call; may run a test."""
    test = rule.test
    if test is None:
        return {}
    known = VERIFIED.get(test.name, {})
    is_known = jaxlib.__version__ in known
    if is_known and _is_verified_cpu(test):
        found = known[jaxlib.__version__]
        if found is None:
            return Failure("this XLA sums in another order", False)
        return found
    at = rule, test.key(*avals, **parameters)
    if at not in _found:
        if not _jax.backend_is_up():
            return Failure("it tests itself once JAX has started", False)
        # In a release that is known, it is the processor that differs.
        _found[at] = _run(rule, test, at[1], is_expected=is_known)
    return _found[at]


def has_failed(rule: Rule) -> bool:
    """Whether a test has failed that does not depend on sizes."""
    return isinstance(_found.get((rule, ())), Failure)


def _run(
    rule: Rule, test: SelfTest, key: tuple[object, ...], is_expected: bool
) -> Found | Failure:
    try:
        found = test.run(rule, *key)
    except Exception as error:  # the program has JAX's own code
        return Failure(f"the self-test of the {test.name}: {error!r}", True)
    if found is None:
        return Failure(
            "XLA computes in another order", is_news=not (key or is_expected)
        )
    return found


def _is_verified_cpu(test: SelfTest) -> bool:
    depends = test.name in ("depthwise convolution", "few products")
    return not depends or _processor.has_avx512()


def isolated(function: Callable[[], T]) -> T:
    """Calls `function` on the CPU with JAX's defaults and XLA's own code.

    It raises what `function` raises. It is called while JAX lowers, and may
    compile programs.
    """
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            with contextlib.ExitStack() as stack:
                for context in _defaults():
                    stack.enter_context(context)
                results.append(function())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, name="xla_ffi_accelerate self-test")
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]


def _defaults() -> list[contextlib.AbstractContextManager[object]]:
    """JAX's defaults instead of the configuration of the process."""
    return [
        _setting.using(OFF),
        jax.default_device(jax.local_devices(backend="cpu")[0]),
        jax.transfer_guard("allow"),
        jax.disable_jit(False),
        jax.enable_x64(True),  # every dtype is what it is called
        jax.default_matmul_precision(None),
        jax.numpy_dtype_promotion("standard"),
        jax.numpy_rank_promotion("allow"),
    ]


def same_bits(
    rule: Rule,
    function: Function,
    *arguments: object,
    trial: Found | None = None,
) -> bool:
    """Whether a rule, once installed, changes no bit of a function's results.

    It compiles the function with XLA's own code and with the rule, which takes
    `trial` as given, and runs both, isolated.
    """

    def compare() -> bool:
        own, want = _bits(function, arguments)
        with _setting.using(Setting(rules=(("", rule),), trial=trial or {})):
            program, got = _bits(function, arguments)
        # A program that does without the rule would prove nothing.
        return program != own and got == want

    return isolated(compare)


def _bits(
    function: Function, arguments: tuple[object, ...]
) -> tuple[str, list[bytes]]:
    """The program and the bits of its results."""
    # A new function object, for which JAX has not kept anything compiled.
    lowered = jax.jit(lambda *a: function(*a)).lower(*arguments)
    leaves = jax.tree.leaves(lowered.compile()(*arguments))
    bits = [np.asarray(leaf).tobytes() for leaf in leaves]
    return lowered.as_text(), bits


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


def _along_lines(x: jax.Array, *, function: Function) -> list[object]:
    return [
        function(x.astype(dtype)[:, :length], axis)
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


def _pool(x: jax.Array, weights: jax.Array) -> jax.Array:
    pooled = jax.lax.reduce_window(
        *(x, -np.inf, jax.lax.max, (1, 4, 3, 1), (1, 2, 1, 1), "SAME")
    )
    return jnp.sum(pooled[:, :6] * weights)


def _entries() -> tuple[Array, Array, Array, Array]:
    """Data, rows and columns of a sparse matrix, and the dense operand."""
    random = np.random.default_rng(0)
    rows = np.sort(random.integers(0, 50, 500)).astype(np.int32)
    columns = random.integers(0, 40, 500).astype(np.int32)
    return _normal(500), rows, columns, _normal(40, 40)


def _bcoo(
    data: jax.Array, rows: jax.Array, columns: jax.Array, rhs: jax.Array
) -> Sequence[object]:
    from jax.experimental import sparse

    places = jnp.stack([rows, columns], axis=1)
    lhs = sparse.BCOO((data, places), shape=(50, 40), indices_sorted=True)
    return lhs @ rhs, lhs @ rhs[:, 0], lhs.T @ (lhs @ rhs)


def _bcsr(
    data: jax.Array, rows: jax.Array, columns: jax.Array, rhs: jax.Array
) -> Sequence[object]:
    from jax.experimental import sparse

    starts = jnp.searchsorted(rows, jnp.arange(51)).astype(np.int32)
    lhs = sparse.BCSR((data, columns, starts), shape=(50, 40))
    return lhs @ rhs, lhs @ rhs[:, 0]


def _multiplied(
    rule: Rule, dtype: np.dtype[np.generic], m: int, k: int, n: int
) -> Found | None:
    """Compares XLA's own products of small matrices with every order."""
    order = isolated(functools.partial(_order, dtype, m, k, n))
    return None if order is None else {"order": order}


def _order(dtype: np.dtype[np.generic], m: int, k: int, n: int) -> str | None:
    random = np.random.default_rng(0)
    lhs = random.standard_normal((_MATRICES_TESTED, m, k)).astype(dtype)
    rhs = random.standard_normal((_MATRICES_TESTED, k, n)).astype(dtype)
    # Half of them are flushed to zeros; not every order keeps their signs.
    lhs[::2] *= float(np.finfo(str(dtype)).tiny)
    result = (_MATRICES_TESTED, m, n), dtype

    def every(
        lhs: _Layouts, rhs: _Layouts, again: tuple[_Layouts, _Layouts]
    ) -> tuple[list[jax.Array], list[jax.Array], list[jax.Array]]:
        own = _own_products(lhs, rhs)
        # XLA may make one of a product and of what transposes its result; but
        # not if it has the product already.
        transposed = [x.swapaxes(1, 2) for x in _own_products(*again)]
        kit = [
            _handler.call(
                *("xla_ffi_accelerate.dot_general", [result], lhs[2], rhs[1]),
                lhs_batch=(0,),
                rhs_batch=(0,),
                lhs_contracting=(2,),
                rhs_contracting=(1,),
                order=order,
            )[0]
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


def _few_products(x: jax.Array, y: jax.Array) -> object:
    """Products of extreme sizes, alone and in a loop, in every layout."""
    pairs = [(x[:, :m, :k], y[:, :k, :n]) for m, k, n in _FEW]
    pairs += [(x.mT, y.mT) for y, x in pairs]
    loops = [
        jax.lax.scan(lambda c, p: (c, (p[0] @ p[1], p[0].mT.mT @ p[1])), 0, p)
        for p in pairs
    ]
    return loops, [x[0] @ y[0] for x, y in pairs]


def _own_products(lhs: _Layouts, rhs: _Layouts) -> list[jax.Array]:
    """The products from operands of every layout."""
    return [
        jax.lax.dot_general(x, y, (((i,), (j,)), ((0,), (0,))))
        for (i, x), (j, y) in itertools.product(lhs.items(), rhs.items())
    ]


SUMS, PRODUCTS = (
    SelfTest(
        "cumulative sum",
        _comparing(
            functools.partial(_along_lines, function=function), _near_one
        ),
    )
    for function in (jax.lax.cumsum, jax.lax.cumprod)
)
CONVOLVED = SelfTest(
    "depthwise convolution",
    _comparing(
        convolve,
        lambda: (_normal(2, 6, 9, 35), _normal(3, 3, 1, 35)),
        trials=({"is_fused": 1}, {"is_fused": 0}),
    ),
)
POOLED = SelfTest(
    "gradient of pooling",
    _comparing(
        jax.grad(_pool),
        lambda: (_normal(2, 13, 14, 3), _normal(2, 6, 14, 3)),
    ),
)
BCOO, BCSR = (
    SelfTest("sparse product", _comparing(multiply, _entries))
    for multiply in (_bcoo, _bcsr)
)
WRITTEN_OUT = SelfTest(
    "few products",
    _comparing(
        _few_products, lambda: (_normal(64, 7, 7), _normal(65, 7, 7)[1:])
    ),
)
# Depends on the release, the processor, the dtype and the sizes.
MULTIPLIED = SelfTest(
    "product of small matrices",
    _multiplied,
    lambda lhs, rhs, *, dimension_numbers, **_: (
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
