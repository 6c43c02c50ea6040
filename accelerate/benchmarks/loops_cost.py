"""What each rule costs within a loop, on few elements.

    tools/bazel run //accelerate/benchmarks:loops_cost -- [--names sort,top_k]

A step of a `lax.scan` by the kit's kernels beside one by JAX's own code, and a
step of its gradient: XLA compiles a small loop to one function, and a custom
call is a task of its own. Programs take turns; of each the least time of all
rounds counts, since other work on the machine only adds. A ratio is JAX's time
by the kit's: below 1 is a loss. Cells that no rule covers are left out. With
the wheels it runs by `python accelerate/benchmarks/loops_cost.py`, on any
release of JAX.
"""

from __future__ import annotations

import argparse
import functools
import math
import time
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from xla_ffi_accelerate import disabled, enabled

SIZES = (2, 4, 8, 16, 32, 64)
STEPS = 4000


def _mix(x: Any, *results: Any) -> Any:
    """The next operand: as large, and made of every result.

    Squares, so that the cotangents are values that only the loop can know.
    """
    for y in results:
        if x.dtype == jnp.int32:
            x = (x * 5) ^ jnp.sum(y).astype(x.dtype)
        else:
            x = x * np.float32(0.5) + jnp.sum(y * y).astype(x.dtype) * 1e-3
    return x


def _vectors() -> Iterator[tuple[str, str, Callable[[Any], Any], str]]:
    """Name, case, function of n elements, and their dtype."""
    for dtype in ("float32", "int32"):
        d = dtype[0]
        yield "sort", f"sort {d}", jnp.sort, dtype
        yield "sort", f"argsort {d}", jnp.argsort, dtype
        yield "top_k", f"top_k of 2 {d}", lambda x: jax.lax.top_k(x, 2), dtype
        yield (
            "top_k",
            f"top_k of half {d}",
            lambda x: jax.lax.top_k(x, max(1, x.size // 2)),
            dtype,
        )
        yield "argmax", f"argmax {d}", jnp.argmax, dtype
        for op in ("cumsum", "cumprod", "cummax"):
            yield op, f"{op} {d}", getattr(jax.lax, op), dtype
        reverse = functools.partial(jax.lax.cummax, reverse=True)
        yield "cummax", f"cummax from the end {d}", reverse, dtype
    yield "cumlogsumexp", "cumlogsumexp f", jax.lax.cumlogsumexp, "float32"


def _draw(x: Any) -> Any:
    key = jax.random.wrap_key_data(
        jax.lax.bitcast_convert_type(x[:2], jnp.uint32)
    )
    return jax.random.uniform(key, x.shape)


def _split(x: Any) -> Any:
    words = jax.lax.bitcast_convert_type(x[:2], jnp.uint32)
    keys = jax.random.split(jax.random.wrap_key_data(words), x.size)
    return jax.random.key_data(keys).astype(jnp.float32) * np.float32(1e-9)


def _batches() -> Iterator[tuple[str, str, Callable[[Any], Any], int]]:
    """Name, case, function of a vector, and the vector's size."""
    for count, rows in ((8, 4), (16, 4), (64, 4), (8, 7), (32, 7)):

        def multiply(x: Any, rows: int = rows) -> Any:
            a = x.reshape(-1, rows, rows)
            return a @ a

        size = count * rows * rows
        yield "dot_general", f"{count} products of {rows}", multiply, size
    for count, rows in ((4, 2), (4, 4), (16, 2), (16, 4), (4, 8)):

        def matrices(x: Any, rows: int = rows) -> Any:
            a = x.reshape(-1, rows, rows) * np.float32(0.1)
            return a @ a.swapaxes(1, 2) + jnp.eye(rows)

        def solve(x: Any, of: Any = matrices) -> Any:
            return jnp.linalg.solve(of(x), of(x)[:, :, 0][..., None])

        size = count * rows * rows
        yield "linalg", f"{count} solutions of {rows}", solve, size
        yield (
            "linalg",
            f"{count} Cholesky of {rows}",
            lambda x, of=matrices: jnp.linalg.cholesky(of(x)),
            size,
        )
        if rows <= 4:
            yield (
                "eigh",
                f"{count} eigh of {rows}",
                lambda x, of=matrices: jnp.linalg.eigh(of(x))[0],
                size,
            )
    for side, channels in ((4, 17), (8, 17), (8, 32)):

        def convolve(x: Any, side: int = side, channels: int = channels) -> Any:
            return jax.lax.conv_general_dilated(
                x.reshape(1, side, side, channels),
                jnp.full((3, 3, 1, channels), 0.1, x.dtype),
                (1, 1),
                "SAME",
                dimension_numbers=("NHWC", "HWIO", "NHWC"),
                feature_group_count=channels,
            )

        size = side * side * channels
        yield "conv_general_dilated", f"convolution of {size}", convolve, size
        yield "depthwise", f"convolution of {size}", convolve, size
    for side in (16, 24, 32):

        def pool(x: Any, side: int = side) -> Any:
            return jax.lax.reduce_window(
                x.reshape(side, side),
                -np.inf,
                jax.lax.max,
                (2, 2),
                (2, 2),
                "VALID",
            )

        case = f"pooling of {side} x {side}"
        yield "select_and_scatter_add", case, pool, side * side
    for count in (16, 32, 64):
        yield "random", f"uniform {count}", _draw, count
        yield "random", f"split {count}", _split, count
    yield from _sparse()


def _sparse() -> Iterator[tuple[str, str, Callable[[Any], Any], int]]:
    from jax.experimental import sparse

    for n in (16, 32):
        dense = np.where(np.add.outer(range(n), range(n)) % 2, 0.01, 0)
        dense = dense.astype(np.float32)
        for kind in (sparse.BCOO, sparse.BCSR):
            matrix = kind.fromdense(dense)

            def multiply(x: Any, matrix: Any = matrix) -> Any:
                return matrix @ x.reshape(matrix.shape[1], -1)

            yield "sparse", f"{kind.__name__} {n} x {n} x 4", multiply, 4 * n


def programs(
    function: Callable[[Any], Any], is_float: bool
) -> dict[str, Callable[[Any], Any]]:
    """A loop of `function`, and its gradient."""

    def loop(x: Any) -> Any:
        def step(x: Any, _: None) -> Any:
            return _mix(x, *jax.tree.leaves(function(x))), None

        return jax.lax.scan(step, x, None, STEPS)[0]

    found = {"forward": loop}
    if is_float:
        found["gradient"] = jax.grad(lambda x: loop(x).sum())
    return found


def ratio(
    name: str, loop: Callable[[Any], Any], x: Any, rounds: int
) -> tuple[float, float, float] | None:
    """Nanoseconds a step with the kit and without, and their ratio."""
    with disabled(), enabled(name):
        lowered = jax.jit(loop).lower(x)
    if "@xla_ffi_accelerate." not in lowered.as_text():
        return None
    with disabled():
        runs = (lowered.compile(), jax.jit(loop).lower(x).compile())
    times: tuple[list[float], list[float]] = ([], [])
    for i in range(rounds + 1):
        for run, spent in zip(runs, times, strict=True):
            start = time.perf_counter()
            jax.block_until_ready(run(x))
            if i:
                spent.append((time.perf_counter() - start) * 1e9 / STEPS)
    kit, other = map(min, times)
    return kit, other, other / kit


def cases(
    names: list[str], sizes: list[int]
) -> Iterator[tuple[str, str, Callable[[Any], Any], Any]]:
    """Name, case, function and operand."""
    random = np.random.default_rng(0)
    for name, case, function, dtype in _vectors():
        for n in sizes:
            if not names or name in names:
                x = random.standard_normal(n) * 100
                yield name, f"{case}, {n}", function, x.astype(dtype)
    for name, case, function, size in _batches():
        if not names or name in names:
            x = random.standard_normal(size).astype(np.float32)
            yield name, case, function, x


def main() -> None:
    """Prints a line for each cell, and the losses at the end."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--names", default="", help="separated by commas")
    parser.add_argument("--rounds", type=int, default=31)
    parser.add_argument("--sizes", type=int, nargs="*", default=SIZES)
    options = parser.parse_args()
    print(f"jax {jax.__version__}: ns a step, kit and JAX, and JAX / kit")
    losses, all_ratios = [], []
    names = [name for name in options.names.split(",") if name]
    for name, case, function, x in cases(names, options.sizes):
        is_float = x.dtype == np.float32
        for kind, loop in programs(function, is_float).items():
            found = ratio(name, loop, x, options.rounds)
            if found is None:
                continue
            kit, own, times = found
            line = f"{case:28} {kind:9} {kit:8.0f} {own:8.0f} {times:7.2f}"
            print(line, flush=True)
            all_ratios.append(times)
            if times < 0.95:
                losses.append(line)
    if all_ratios:
        mean = math.exp(sum(map(math.log, all_ratios)) / len(all_ratios))
        print(f"{len(all_ratios)} cells, geometric mean {mean:.2f}")
    print(f"{len(losses)} below 0.95:", *losses, sep="\n")


if __name__ == "__main__":
    main()
