"""The words of a text, hashed by a state machine in a few lines of C++.

Each character's hash depends on the one before: a scan of tiny steps, for which
JAX has no fast primitive, and which is a loop in C++.
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import quickstart_report as report
import xla_ffi_kit


@xla_ffi_kit.rows(
    r"""
    A hash = 0;
    for (int64_t i = 0; i < letters.size(); ++i)
      out[i] = hash = letters[i] == 0 ? 0 : hash * 16777619 + letters[i];
    """,
    dtypes="u32",
)
def hash_words(letters: jax.Array) -> jax.Array:
    """FNV hashes of the words so far: uint32[..., n]; zeros end words."""

    def step(hash: jax.Array, letter: jax.Array) -> tuple[jax.Array, jax.Array]:
        hash = jnp.where(letter == 0, 0, hash * jnp.uint32(16777619) + letter)
        return hash, hash

    start = jnp.zeros(letters.shape[:-1], letters.dtype)
    return jnp.moveaxis(
        jax.lax.scan(step, start, jnp.moveaxis(letters, -1, 0))[1], 0, -1
    )


class Hashes(NamedTuple):
    """The hashes, and how long they took, less compilation."""

    hashes: np.ndarray
    seconds: float
    handler: bool


def measure(letters: np.ndarray, *, plain: bool) -> Hashes:
    """Hashes by the C++ function or, if `plain`, by its reference."""
    implementation = "reference" if plain else None
    run = (
        jax.jit(lambda x: hash_words(x, implementation=implementation))
        .lower(letters)
        .compile()
    )
    hashes, seconds = run(letters), float("inf")
    for _ in range(5):
        start = time.perf_counter()
        run(letters).block_until_ready()
        seconds = min(seconds, time.perf_counter() - start)
    report.progress(
        f"{'plain JAX' if plain else 'a loop in C++'}: {1e3 * seconds:.1f} ms",
        last=True,
    )
    return Hashes(
        np.asarray(hashes), seconds, "hash_words." in (run.as_text() or "")
    )


def frequent(letters: np.ndarray, hashes: np.ndarray, count: int) -> list[str]:
    """The most frequent words of more than three letters."""
    ends = np.flatnonzero((letters != 0) & (np.append(letters[1:], 0) == 0))
    _, first, counts = np.unique(
        hashes[ends], return_index=True, return_counts=True
    )
    found = []
    for i in np.argsort(-counts):
        end = ends[first[i]] + 1
        begin = end - int(np.argmin(np.append(letters[:end][::-1], 0) != 0))
        if end - begin > 3:
            found.append("".join(map(chr, letters[begin:end])))
        if len(found) == count:
            break
    return found


def result(kit: Hashes, plain: Hashes) -> report.Result:
    """What the two say for the report."""
    same = np.array_equal(kit.hashes, plain.hashes)
    row = (
        f"hashes of words, {kit.hashes.size:,} characters",
        f"{1e3 * plain.seconds:.1f} ms",
        f"{1e3 * kit.seconds:.1f} ms",
        f"{plain.seconds / kit.seconds:.0f} times as fast, "
        f"{'the same' if same else 'NOT the same'}",
    )
    problems = []
    if not same:
        problems.append("the hashes of words by C++ are others")
    if not kit.handler:
        problems.append("the C++ function is not in the compiled program")

    def draw(axes: Any) -> None:
        axes.barh(["inline", "plain JAX"], [kit.seconds, plain.seconds])
        axes.set_xlabel("seconds")
        axes.set_title(f"hashes of words, {kit.hashes.size:,} characters")

    return report.Result([row], problems, draw)
