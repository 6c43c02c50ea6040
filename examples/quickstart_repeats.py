"""The suffix array of a text by prefix doubling, and what the text repeats.

A suffix array lists the places of a text in the order of the texts that begin
there; search engines and compressors build it. Prefix doubling (Manber and
Myers, 1990) sorts the places by their first character, then by two, four, eight
and so on: each round sorts pairs of ranks, which is all that it does for long,
and `jnp.lexsort` sorts them.
"""

from __future__ import annotations

import sys
import time
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import quickstart_report as report


class SuffixArray(NamedTuple):
    """The places in their order, and how they were found.

    Attributes:
      order: int32[n], the suffix array.
      ranks: int32[rounds, n]: ranks[r, i] == ranks[r, j] means that the 2**r
        characters from i on are those from j on.
      seconds: how long it took, less compilation.
      handlers: whether the compiled round calls a handler of the kit.
    """

    order: np.ndarray
    ranks: np.ndarray
    seconds: float
    handlers: bool


def double(rank: jax.Array, length: jax.Array) -> tuple[jax.Array, jax.Array]:
    """From ranks by `length` characters to ranks by twice as many.

    Args:
      rank: int32[n], the rank of each place.
      length: int32[].

    Returns:
      The places in their order and their new ranks, both int32[n].
    """
    place = jnp.arange(rank.size, dtype=rank.dtype)
    # What the text's end cuts short comes first.
    after = jnp.where(place + length < rank.size, jnp.roll(rank, -length), -1)
    order = jnp.lexsort((after, rank))
    pair = rank[order], after[order]
    changes = [jnp.diff(x, prepend=x[:1]) != 0 for x in pair]
    new_rank = jnp.cumsum(changes[0] | changes[1], dtype=rank.dtype)
    return order, jnp.zeros_like(rank).at[order].set(new_rank)


def suffix_array(text: np.ndarray, say: str) -> SuffixArray:
    """The suffix array of int32[n], on the way saying how far it is."""
    # A function of its own: what is compiled once stays as it is.
    compiled = (
        jax.jit(lambda *operands: double(*operands))
        .lower(text, np.int32(1))
        .compile()
    )
    handlers = "xla_ffi_accelerate." in (compiled.as_text() or "")
    start = time.perf_counter()
    ranks = [jnp.asarray(text)]
    distinct, length = 0, 1
    while distinct < text.size:
        order, rank = compiled(ranks[-1], np.int32(length))
        ranks.append(rank)
        length *= 2
        distinct = int(rank.max()) + 1
        if sys.stdout.isatty():
            report.progress(f"{say}: sorted by {length} characters", last=False)
    seconds = time.perf_counter() - start
    report.progress(
        f"{say}: {len(ranks) - 1} sorts, by at most {length} characters: "
        f"{seconds:.2f} s",
        last=True,
    )
    return SuffixArray(
        np.asarray(order), np.stack(ranks[:-1]), seconds, handlers
    )


def longest_repeat(found: SuffixArray) -> tuple[int, int, int]:
    """(first place, second place, length) of the longest repeated passage."""
    first, second = found.order[:-1], found.order[1:]
    length = np.zeros_like(first)
    size = found.order.size
    # Neighbours share the most: as long a part as possible, then the rest.
    for power in reversed(range(len(found.ranks))):
        rank = np.append(found.ranks[power], -1)
        a, b = (np.minimum(x + length, size) for x in (first, second))
        length += (rank[a] == rank[b]) << power
    at = int(length.argmax())
    places = sorted((int(first[at]), int(second[at])))
    return places[0], places[1], int(length[at])


def result(kit: SuffixArray, plain: SuffixArray) -> report.Result:
    """What the two suffix arrays say for the report."""
    same = np.array_equal(kit.order, plain.order)
    ratio = plain.seconds / kit.seconds
    row = (
        f"suffix array, {len(kit.ranks)} sorts of {kit.order.size:,}",
        f"{plain.seconds:.2f} s",
        f"{kit.seconds:.2f} s",
        f"{ratio:.1f} times as fast, {'the same' if same else 'NOT the same'}",
    )
    problems = []
    if not same:
        problems.append("the suffix array with accelerate is another one")
    if not kit.handlers:
        problems.append(
            "no handler of accelerate is in the program; "
            "`python -m xla_ffi_kit doctor` says why"
        )
    if plain.handlers:
        problems.append("plain JAX's program calls a handler of the kit")

    def draw(axes: Any) -> None:
        axes.barh(["accelerate", "plain JAX"], [kit.seconds, plain.seconds])
        axes.set_xlabel("seconds")
        axes.set_title(f"suffix array of {kit.order.size:,} characters")

    return report.Result([row], problems, draw)
