"""What the kit does, on the words of Python's own manual, beside plain JAX.

Is the spelling of rare words harder to guess than that of frequent ones?
Isotonic regression answers that: it finds the nondecreasing sequence that is
nearest to a given one, by a loop over a stack, which JAX expresses badly. Here
it is an operation from a string of C++, and from a C++ file, with the
derivative, batches and devices of any JAX operation. The last row is of JAX
code that stays as it is: one line makes its loop faster.

    tools/bazel run //examples:quickstart
    python quickstart.py    # with both wheels and a C++ compiler

Prints a table; ends with status 1 if results differ.
"""

from __future__ import annotations

import importlib
import pathlib
import re
import statistics
import sys
import tempfile
import time
from collections import Counter
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

import xla_ffi_accelerate
import xla_ffi_kit
from xla_ffi_kit.testing import Case, check_op

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 4)
jax.config.update("jax_enable_x64", True)
xla_ffi_accelerate.enable("loops")  # the one line: see `trend`

# --- A kernel in a string -----------------------------------------------------


@xla_ffi_kit.rows(
    """
    std::vector<std::pair<A, int64_t>> blocks;  // sum and length of each
    for (int64_t i = 0; i < x.size(); ++i) {
      A sum = x[i];
      int64_t length = 1;
      while (!blocks.empty() &&
             !(blocks.back().first * length < sum * blocks.back().second)) {
        sum += blocks.back().first;
        length += blocks.back().second;
        blocks.pop_back();
      }
      blocks.push_back({sum, length});
    }
    int64_t i = 0;
    for (auto [sum, length] : blocks)
      for (int64_t end = i + length; i < end; ++i) out[i] = sum / length;
    """,
    before="#include <vector>",
    dtypes="f32 f64",
    derivatives="kernel",  # the string differentiates itself
)
def isotonic(x):
    """The same in plain JAX, in quadratic time: it defines the operation."""
    sums, at = jnp.cumsum(x, -1), jnp.arange(x.shape[-1])
    lengths = at - at[:, None] + 1
    means = sums[..., None, :] - (sums - x)[..., None]
    means = jnp.where(lengths > 0, means / jnp.maximum(lengths, 1), jnp.inf)
    lowest = lax.cummin(means, axis=means.ndim - 1, reverse=True)
    return jnp.where(lengths > 0, lowest, -jnp.inf).max(-2)


# --- The same in a library of handlers ----------------------------------------

SOURCE = pathlib.Path(__file__).absolute().with_name("quickstart_isotonic.cc")
LIBRARY = SOURCE.with_name("quickstart_handlers.so")  # if Bazel built it
if not LIBRARY.exists():
    folder = tempfile.TemporaryDirectory()
    LIBRARY = pathlib.Path(folder.name, LIBRARY.name)
    handlers = {"examples.isotonic": "QuickstartIsotonic"}
    xla_ffi_kit.build_library([SOURCE], handlers, LIBRARY)

# Dtypes, and that a row is the last axis, come from the handler's signature.
from_library = xla_ffi_kit.FfiOp(
    "examples.isotonic", isotonic.reference, libraries=[LIBRARY]
)

# --- Plain JAX ----------------------------------------------------------------

plain = isotonic.reference


def best_plain(x: jax.Array) -> jax.Array:
    """One row by the fastest plain JAX that we found: a stack, never copied."""
    n = x.size

    def push(i, state):
        sums, lengths, top = state

        def falls(block):
            total, length, top = block
            last = jnp.maximum(top - 1, 0)
            return (top > 0) & ~(sums[last] * length < total * lengths[last])

        def join(block):
            total, length, top = block
            return total + sums[top - 1], length + lengths[top - 1], top - 1

        total, length, top = lax.while_loop(falls, join, (x[i], 1, top))
        return sums.at[top].set(total), lengths.at[top].set(length), top + 1

    start = jnp.zeros_like(x), jnp.zeros(n, int), 0
    sums, lengths, top = lax.fori_loop(0, n, push, start)
    lengths = jnp.where(jnp.arange(n) < top, lengths, 0)
    block = jnp.repeat(jnp.arange(n), lengths, total_repeat_length=n)
    return (sums / jnp.maximum(lengths, 1))[block]


def trend(y: jax.Array) -> jax.Array:
    """The level of a series by a Kalman filter with a memory of 8 steps."""
    move = jnp.eye(8, k=-1) + jnp.eye(8, 1) / 8  # the mean of them

    def step(state, value):
        mean, cov = state
        mean, cov = move @ mean, move @ cov @ move.T + jnp.eye(8)
        gain = cov[0] / (cov[0, 0] + 100)
        mean = mean + gain * (value - mean[0])
        return (mean, cov - jnp.outer(gain, cov[0])), mean[0]

    return lax.scan(step, (jnp.zeros(8), 100 * jnp.eye(8)), y)[1]


# --- Data ---------------------------------------------------------------------


def read_manual() -> str:
    """The language reference that comes with Python, in lower case."""
    topics = importlib.import_module("pydoc_data.topics").topics
    return "\n".join(topics[name] for name in sorted(topics)).lower()


def spell(words: list[str]) -> np.ndarray:
    """The bits of each distinct word's letters, the most frequent word first.

    What a letter's probability is after another, all words say.
    """
    pairs = Counter(pair for w in words for pair in pairwise(" " + w))
    firsts = Counter("".join(" " + w[:-1] for w in words))
    bits = {pair: np.log2(firsts[pair[0]] / n) for pair, n in pairs.items()}
    ranked = [w for w, _ in Counter(words).most_common()]
    return np.array([sum(map(bits.get, pairwise(" " + w))) for w in ranked])


# --- Side by side -------------------------------------------------------------


def compiled(function: Any, *operands: Any) -> Any:
    """The function, compiled for these operands."""
    return jax.jit(function).lower(*operands).compile()


def seconds(program: Any, *operands: Any) -> float:
    """The median of what calls take, after one that does not count."""
    times: list[float] = []
    end = time.perf_counter() + 0.1
    while time.perf_counter() < end or len(times) < 4:
        start = time.perf_counter()
        jax.block_until_ready(program(*operands))
        times.append(time.perf_counter() - start)
    return statistics.median(times[1:])


class Row:
    """A line of the table: what plain JAX and the kit make of operands."""

    def __init__(self, name: str, by_jax: Any, by_kit: Any, *operands: Any):
        self.name = name
        self.results = by_jax(*operands), by_kit(*operands)
        self.same = np.allclose(*self.results, rtol=1e-9, atol=1e-9)
        self.seconds = [seconds(f, *operands) for f in (by_jax, by_kit)]

    def __str__(self) -> str:
        plain, kit = self.seconds
        times = f"{1e3 * plain:10,.2f} ms{1e3 * kit:8.2f} ms"
        same = "the same" if self.same else "DIFFERENT"
        return f"{self.name:34}{times}{plain / kit:8,.0f} x  {same}"


def measure(text: str) -> list[Row]:
    """All lines of the table, on a text in lower case."""

    def row(name: str, by_jax: Any, by_kit: Any, *operands: Any) -> Row:
        programs = [compiled(f, *operands) for f in (by_jax, by_kit)]
        return Row(name, *programs, *operands)

    words = re.findall("[a-z]+", text)
    bits = spell(words)[:1000]
    weights = np.cos(np.arange(bits.size))
    losses = [lambda x, f=f: weights @ f(x) for f in (plain, isotonic)]
    # One row for each eighth of the text, and two for each of four devices.
    parts = np.array_split(words, 8)
    parts = np.stack([spell([*part])[:400] for part in parts])
    mesh = jax.make_mesh((4,), ("parts",))
    on_devices = jax.device_put(parts, NamedSharding(mesh, P("parts")))
    by_row = [jax.vmap(f) for f in (best_plain, isotonic)]
    lengths = [len(s.split()) for s in re.split(r"[.:!?]\s", text)]
    lengths = np.array(lengths, float)
    with xla_ffi_accelerate.disabled():
        plain_trend = compiled(trend, lengths)
    return [
        row(f"isotonic, {bits.size:,} words", plain, isotonic, bits),
        row("  the best plain JAX, no gradient", best_plain, isotonic, bits),
        row("  by a handler in a library", plain, from_library, bits),
        row("  its gradient", *map(jax.grad, losses), bits),
        row(f"  vmap over {parts.shape}", *by_row, parts),
        row("  on four devices", plain, isotonic, on_devices),
        Row(
            f"Kalman filter, {lengths.size:,} sentences",
            *(plain_trend, compiled(trend, lengths), lengths),
        ),
    ]


def main() -> int:
    """Prints the table; returns 1 if a result is another one, else 0."""
    slow = ["second order", "jacobians", "vmap of grad"]  # to compile
    report = check_op(isotonic, [Case("f64[2,5]")], skip=slow)
    passed = [row.check for row in report.rows if row.status == "passed"]
    rows = measure(read_manual())
    fitted = rows[0].results[1]
    print(
        f"check_op: {len(passed)} checks of the string passed.\n"
        f"A word's letters take {fitted[0]:.1f} bits where it is frequent, "
        f"{fitted[-1]:.1f} where it is rare.\n\n"
        f"{'':34}{'plain JAX':>13}{'the kit':>11}"
    )
    print("\n".join(map(str, rows)))
    return 0 if all(row.same for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
