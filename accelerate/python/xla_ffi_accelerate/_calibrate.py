"""Measures the break-even size of each rule on this machine."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Mapping
from typing import TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from xla_ffi_accelerate import _break_even, _self_tests, switch
from xla_ffi_accelerate._break_even import SIZES, Cost

# A function of one array that returns one of the same type; the array; its size
# as the table counts it.
Probe: TypeAlias = tuple[Callable[[jax.Array], jax.Array], jax.Array, int]

_STEPS = 64  # of the loop that is timed
_SECONDS = 0.02  # that each measurement takes, at least
_ROUNDS = 3  # of both in turn: what else runs on the machine changes
_SCALES = (1 / 2, 4)  # of the table's size: near it, costs are linear
# An odd factor brings integers out of order again.
_MIX = np.int32(-1640531527)


def _integers(n: int) -> jax.Array:
    random = np.random.default_rng(0)
    return jnp.asarray(random.integers(-(2**31), 2**31, n, np.int32))


def _floats(*shape: int) -> jax.Array:
    random = np.random.default_rng(0)
    return jnp.asarray(random.standard_normal(shape, np.float32))


def _sorts_floats(x: jax.Array) -> jax.Array:
    return jnp.sort((x * _MIX).astype(jnp.float32)).astype(x.dtype)


def _sorts_pairs(x: jax.Array) -> jax.Array:
    pair = jax.lax.sort((x * _MIX, jnp.arange(x.size)), num_keys=1)
    return pair[0] ^ pair[1]


def _linalg(n: int) -> Probe:
    a = _floats(n, 4, 4)
    return lambda x: a + 1e-6 * jax.lax.linalg.lu(x)[0], a, n


def _convolves(n: int) -> Probe:
    kernel = jnp.full((3, 3, 1, 32), 1 / 9, jnp.float32)

    def step(x: jax.Array) -> jax.Array:
        y: jax.Array = jax.lax.conv_general_dilated(
            *(x, kernel, (1, 1), "SAME"),
            dimension_numbers=("NHWC", "HWIO", "NHWC"),
            feature_group_count=32,
        )
        return y

    # XLA computes fewer rows otherwise.
    x = _floats(1, max(n // (9 * 32 * 2), 3), 2, 32)
    return step, x, 9 * x.size


def _pools(n: int) -> Probe:
    def pool(x: jax.Array) -> jax.Array:
        window = (1, 2, 2, 1)
        pooled: jax.Array = jax.lax.reduce_window(
            *(x, -np.inf, jax.lax.max, window, window, "VALID")
        )
        return pooled.sum()

    gradient = jax.grad(pool)
    x = _floats(1, max(n // 32, 1) * 2, 4, 4)
    return lambda x: x + 1e-3 * gradient(x), x, x.size


def _multiplies(n: int) -> Probe:
    from jax.experimental import sparse

    random = np.random.default_rng(0)
    entries = max(n // 8, 1)
    places = np.sort(random.integers(0, 16, (entries, 2)), axis=0)
    data = _floats(entries) * 0.1
    lhs = sparse.BCOO(
        (data, jnp.asarray(places)), shape=(16, 16), indices_sorted=True
    )
    x = _floats(16, 8)
    return lambda y: x + 1e-3 * (lhs @ y), x, entries * 8


def _mixed(f: Callable[[jax.Array], jax.Array]) -> Callable[[int], Probe]:
    return lambda n: (lambda x: f(x * _MIX), _integers(n), n)


def _searches(n: int) -> Probe:
    return lambda x: x - 1e-3 * jnp.argmax(x), _floats(n), n


# Name -> a step of a loop with a call of about that size.
PROBES: Mapping[str, Callable[[int], Probe]] = {
    "argmax of floats": _searches,
    "argmax of integers": _mixed(lambda x: x + jnp.argmax(x)),
    "cumulative": _mixed(jnp.cumsum),
    "depthwise convolution": _convolves,
    "gradient of pooling": _pools,
    "linalg": _linalg,
    "sort of floats": lambda n: (_sorts_floats, _integers(n), n),
    "sort of integers": _mixed(jnp.sort),
    "sort with payload": lambda n: (_sorts_pairs, _integers(n), n),
    "sparse product": _multiplies,
    "top_k": _mixed(lambda x: x ^ jax.lax.top_k(x, 2)[0][0]),
}


def calibrate() -> dict[str, Cost]:
    """The costs of each rule whose size the table has; some 30 seconds."""
    found = {
        name: _self_tests.isolated(functools.partial(_cost, name))
        for name in SIZES
    }
    return {name: cost for name, cost in found.items() if cost is not None}


def _cost(name: str) -> Cost | None:
    """The costs; None if no rule covers the calls or the machine was busy."""
    sizes: list[int] = []
    own: list[float] = []
    rule: list[float] = []
    for scale in _SCALES:
        step, x, size = PROBES[name](max(int(SIZES[name] * scale), 2))
        by_xla, program = _compiled(step, x)
        with switch.enabled(exact=False), _break_even.forced():
            by_rule, other = _compiled(step, x)
        if program == other:
            return None
        rounds = [(_seconds(by_xla), _seconds(by_rule)) for _ in range(_ROUNDS)]
        for times, series in zip(
            (own, rule), zip(*rounds, strict=True), strict=True
        ):
            times.append(min(series) / _STEPS * 1e9)
        sizes.append(size)
    more = sizes[1] - sizes[0]
    slope, rule_slope = (own[1] - own[0]) / more, (rule[1] - rule[0]) / more
    if slope <= 0:
        return None
    rule_slope = max(rule_slope, 0.0)
    call = rule[0] - own[0] + (slope - rule_slope) * sizes[0]
    return Cost(call, slope, rule_slope)


def _compiled(
    step: Callable[[jax.Array], jax.Array], x: jax.Array
) -> tuple[Callable[[], jax.Array], str]:
    """A loop of steps, and its program."""

    def loop(x: jax.Array) -> jax.Array:
        def body(_: jax.Array, x: jax.Array) -> jax.Array:
            return step(x).astype(x.dtype)

        last: jax.Array = jax.lax.fori_loop(0, _STEPS, body, x)
        return last

    lowered = jax.jit(loop).lower(x)
    return functools.partial(lowered.compile(), x), lowered.as_text()


def _seconds(loop: Callable[[], jax.Array]) -> float:
    """The quickest of some calls."""
    loop().block_until_ready()
    times: list[float] = []
    end = time.perf_counter() + _SECONDS
    while not times or time.perf_counter() < end:
        begin = time.perf_counter()
        loop().block_until_ready()
        times.append(time.perf_counter() - begin)
    return min(times)
