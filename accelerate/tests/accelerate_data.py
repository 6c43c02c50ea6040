"""Arrays that sorting gets wrong, and the comparison with JAX's own code."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import xla_ffi_accelerate
from xla_ffi_accelerate import _lowering

DTYPES = (
    "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 "
    "float16 bfloat16 float32 float64".split()
)


def off() -> Iterator[None]:
    """Nothing is on, or lowered yet: that depends on the rules of a test."""
    jax.clear_caches()
    xla_ffi_accelerate.disable()
    yield
    xla_ffi_accelerate.disable()
    jax.clear_caches()


def python(*arguments: str, **variables: str) -> Any:
    """A process of its own, which ends well; it has `stdout` and `stderr`."""
    path = os.pathsep.join(filter(None, sys.path))
    done = subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path, **variables},
    )
    assert not done.returncode, done.stderr
    return done


def specials(dtype: np.dtype) -> np.ndarray:
    """Extreme values and, of floats, all that compare in their own way."""
    if dtype.kind == "b":
        return np.array([False, True])
    if jnp.issubdtype(dtype, np.integer):
        info = np.iinfo(dtype)
        return np.array([info.min, info.max, 0, 1, info.max // 2], dtype)
    info = jnp.finfo(dtype)
    positive = [0, info.smallest_subnormal, info.tiny, 1, info.max, np.inf]
    values = np.array([*positive, np.nan], dtype)
    unsigned = np.dtype(f"u{dtype.itemsize}")
    payload_nan = (values[-1:].view(unsigned) | unsigned.type(5)).view(dtype)
    values = np.concatenate([values, payload_nan])
    return np.concatenate([values, -values])


def rows(dtype: str, n: int, seed: int = 0) -> np.ndarray:
    """One row of length n for each pattern."""
    kind = jnp.dtype(dtype)
    random = np.random.default_rng((seed, n))
    special = specials(kind)
    if kind.kind == "b":
        any_bits = random.integers(0, 2, n).astype(bool)
    else:
        any_bits = np.frombuffer(random.bytes(n * kind.itemsize), kind)
    ramp = np.arange(n) * 100 // max(n, 1)
    zeros = np.array([0, -0.0, -np.inf if kind.kind != "b" else 0])
    with np.errstate(invalid="ignore"):
        zeros = np.zeros(3).astype(kind) if kind.kind in "iu" else zeros
        patterns = [
            any_bits,
            special[random.integers(0, len(special), n)],
            random.integers(0, 4, n).astype(kind),
            np.zeros(n).astype(kind),
            np.full(n, special[-1], kind),  # all NaN, of floats
            ramp.astype(kind),
            ramp[::-1].astype(kind),
            np.minimum(ramp, ramp[::-1]).astype(kind),
            zeros.astype(kind)[random.integers(0, 3, n)],
        ]
    return np.stack(patterns)


def _organ_pipe(n: int) -> np.ndarray:
    """Up and down again."""
    i = np.arange(n)
    return np.concatenate([i[::2], i[1::2][::-1]])


def _median_of_three_killer(n: int) -> np.ndarray:
    """Musser (1997): what a median of three divides worst."""
    k = n // 2
    order = np.arange(n)
    odd = np.arange(0, k, 2)
    order[odd] = odd
    order[odd[odd + 1 < k] + 1] = k + odd[odd + 1 < k]
    order[k : 2 * k] = 2 * np.arange(k) + 1
    # Each rank once, whatever the length.
    return np.argsort(np.argsort(order, kind="stable"), kind="stable")


# Orders that sorts fear: of n elements in ascending order, which comes where.
ORDERS: dict[str, Callable[[int], np.ndarray]] = {
    "sorted": np.arange,
    "reversed": lambda n: np.arange(n)[::-1],
    "organ pipe": _organ_pipe,
    "killer": _median_of_three_killer,
    "last in front": lambda n: np.roll(np.arange(n), 1),
    "first at the end": lambda n: np.roll(np.arange(n), -1),
    "saw": lambda n: np.argsort(np.arange(n) % 7, kind="stable"),
    "two runs": lambda n: np.argsort(np.arange(n) % 2, kind="stable"),
}


def bits(tree: Any) -> list[tuple[Any, Any, bytes]]:
    """Everything about the arrays of a result."""
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(tree)]
    return [(leaf.shape, leaf.dtype, leaf.tobytes()) for leaf in leaves]


def without_nans(tree: Any) -> list[np.ndarray]:
    """With one NaN for all of them: of two that meet, either may stay."""
    leaves = map(np.asarray, jax.tree.leaves(tree))
    return [
        np.where(np.isnan(x), x.dtype.type(np.nan), x)
        if jnp.issubdtype(x.dtype, np.inexact)
        else x
        for x in leaves
    ]


def both(
    f: Callable[..., Any],
    *arguments: Any,
    names: Sequence[str] = (),
    exact: bool = True,
) -> tuple[list[np.ndarray], list[np.ndarray], str]:
    """What JAX's own code gives, what the package's, and its program."""
    with xla_ffi_accelerate.disabled():
        want = jax.jit(lambda *a: f(*a))(*arguments)
    with xla_ffi_accelerate.enabled(*names, exact=exact):
        lowered = jax.jit(lambda *a: f(*a)).lower(*arguments)
    got = lowered.compile()(*arguments)
    leaves = (list(map(np.asarray, jax.tree.leaves(v))) for v in (want, got))
    return *leaves, lowered.as_text()


def program(
    f: Callable[..., Any],
    *arguments: Any,
    names: Sequence[str] = (),
    exact: bool = True,
) -> str:
    """What a function is lowered to with some names on."""
    with xla_ffi_accelerate.enabled(*names, exact=exact):
        return jax.jit(lambda *a: f(*a)).lower(*arguments).as_text()


def check_equal(
    cases: dict[str, tuple[Callable[..., Any], Any]], names: Sequence[str] = ()
) -> None:
    """Compares (function, arguments) with JAX's own code, bit for bit.

    With all exact names on, and with these. They are one program: to compile
    each of them takes much longer.
    """
    functions = {name: f for name, (f, _) in cases.items()}
    arrays = {name: args for name, (_, args) in cases.items()}

    def every(arrays: Any) -> Any:
        return {name: f(*arrays[name]) for name, f in functions.items()}

    compiled, enabled = jax.jit(every), xla_ffi_accelerate.enabled
    with _compilation_for(arrays):
        with xla_ffi_accelerate.disabled():
            wants = compiled(arrays)
        with enabled(), enabled(*names):
            gots = compiled(arrays)
    found = jax.tree.leaves(gots)
    for got, (path, want) in zip(
        found, jax.tree.leaves_with_path(wants), strict=True
    ):
        assert bits(got) == bits(want), jax.tree_util.keystr(path)


def _compilation_for(arrays: Any) -> contextlib.AbstractContextManager[None]:
    """Without LLVM's optimizations where they cannot change a bit: integers."""
    leaves = jax.tree.leaves(arrays)
    if any(jnp.issubdtype(leaf.dtype, jnp.inexact) for leaf in leaves):
        return contextlib.nullcontext()
    return quick_compilation()


@contextlib.contextmanager
def quick_compilation() -> Iterator[None]:
    """Without LLVM's optimizations."""
    name = "jax_disable_most_optimizations"
    before = jax.config.read(name)
    jax.config.update(name, True)
    try:
        yield
    finally:
        jax.config.update(name, before)


def along(axis, *names, reverse=False):
    """All the functions at once: compiling takes longer than running."""

    def run(name, x):
        if name.startswith("arg"):
            return getattr(jax.lax, name)(x, axis % x.ndim, jnp.int32)
        y = getattr(jax.lax, name)(x, axis % x.ndim, reverse=reverse)
        if not jnp.issubdtype(y.dtype, jnp.floating):
            return y
        return jnp.where(jnp.isnan(y), jnp.nan, y)  # their bits may differ

    return jax.jit(lambda *arrays: [run(n, x) for n in names for x in arrays])


def self_test(rule):
    """What a rule's test finds; None if XLA computes otherwise."""
    _lowering.install("", rule)
    return rule.test.run(rule)


def matrices(n, dtype=np.float32, count=37, seed=0):
    """Well conditioned, and any row may have the pivot."""
    random = np.random.default_rng((seed, n))
    a = random.standard_normal((count, n, n)) + 3 * np.eye(n)
    return np.stack([random.permutation(m) for m in a]).astype(dtype)


def definite(n, dtype=np.float32):
    a = matrices(n, np.float64)
    return (a @ a.swapaxes(1, 2) + np.eye(n)).astype(dtype)
