"""The CUDA kernels beside XLA's own code and a copy on the device.

    python gpu_benchmark.py [--only PART...] [--json FILE] [--plot FILE.svg]

A program runs one contestant on several sets of buffers, one after the other,
so that no call finds its data in a cache; programs are queued, so that the host
works ahead of the GPU, and the time is that until the last is done. A
contestant that the host may have slowed down all the same is marked "host".
"copy" copies on the device as many bytes as the cell reads and writes. The RMS
norms of torch, torch.compile, Liger and QuACK take part where they are
installed, in the same rounds.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import pathlib
import random
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gpu_peers
import gpu_plot
import gpu_times
import jax
import jax.numpy as jnp
from gpu_cells import Cell, cells

_ROUNDS = 9


def _make(struct: jax.ShapeDtypeStruct, seed: int) -> jax.Array:
    return jax.random.normal(jax.random.key(seed), struct.shape, struct.dtype)


def _over_sets(function: Callable[..., Any]) -> Any:
    """A program that applies a function to each set of operands in turn."""

    def program(sets: list[tuple[Any, ...]]) -> list[Any]:
        results: list[Any] = []
        for operands in sets:
            if results:
                # No set is begun before the last one is done, nor are two of
                # them made one kernel.
                operands, results[-1] = jax.lax.optimization_barrier(
                    (operands, results[-1])
                )
            results.append(function(*operands))
        return results

    return jax.jit(program)


class _Contestant:
    def __init__(
        self,
        function: Callable[..., Any],
        sets: list[tuple[Any, ...]],
        seconds: float,
    ) -> None:
        self.sets = sets
        self.program = _over_sets(function).lower(sets).compile()
        self.repeats = 1
        self.sample()  # the first run loads code
        self.repeats = gpu_times.repeats_needed(
            self.sample().finished, seconds / _ROUNDS
        )

    def sample(self) -> gpu_times.Sample:
        start = time.perf_counter()
        for _ in range(self.repeats):
            results = self.program(self.sets)
        dispatched = time.perf_counter() - start
        jax.block_until_ready(results)
        finished = time.perf_counter() - start
        calls = self.repeats * len(self.sets)
        return gpu_times.Sample(dispatched, finished, calls)


def measure(
    cell: Cell, seconds: float, peers: Mapping[str, gpu_peers.Peer]
) -> gpu_times.Row:
    """Measures a cell, each contestant for about that many seconds."""
    count = gpu_times.sets_needed(cell.bytes)
    sets = [
        tuple(_make(x, 10 * i + j) for j, x in enumerate(cell.operands))
        for i in range(count)
    ]
    half = jax.ShapeDtypeStruct((cell.bytes // 2,), jnp.uint8)
    copied = [(jnp.full(half.shape, i, half.dtype),) for i in range(count)]
    contestants: dict[str, _Contestant | gpu_peers.Contestant] = {
        "kit": _Contestant(cell.kit, sets, seconds),
        "xla": _Contestant(cell.xla, sets, seconds),
        "copy": _Contestant(lambda x: x.copy(), copied, seconds),
    }
    first = cell.operands[0]
    if len(first.shape) == 2:
        contestants |= gpu_peers.contestants(
            *(peers, cell.operation, first.shape, str(first.dtype), count),
            seconds / _ROUNDS,
        )
    rounds = []
    for _ in range(_ROUNDS):
        order = list(contestants)
        random.shuffle(order)
        samples = {name: contestants[name].sample() for name in order}
        rounds.append({name: samples[name] for name in contestants})
    return gpu_times.summarize(cell.name, cell.bytes, rounds)


def line(row: gpu_times.Row) -> str:
    """A row as text."""
    speeds = "  ".join(
        f"{name} {speed:6.0f}"
        for name, speed in row.gigabytes_per_second.items()
    )
    # Time of the copy over that of the kit: the share of the copy's speed.
    return (
        f"{row.name:32} GB/s: {speeds}"
        f"   of copy {row.ratios['copy'].median:.2f}"
        + "".join(
            f"  x {'XLA' if name == 'xla' else name} {ratio.median:.2f}"
            for name, ratio in row.ratios.items()
            if name != "copy"
        )
        + (f"  host: {', '.join(row.host_bound)}" if row.host_bound else "")
    )


def machine() -> dict[str, str]:
    """What the numbers were measured with."""
    device = jax.devices()[0]
    return {
        "device": device.device_kind,
        "platform": device.client.platform_version,
        "jax": jax.__version__,
        "jaxlib": jax.lib.__version__,
    }


def main(arguments: Sequence[str]) -> None:
    """Measures what the arguments say, and writes it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--plot", type=pathlib.Path)
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--array_bytes", type=int, default=128 << 20)
    parser.add_argument(
        "--peers", action=argparse.BooleanOptionalAction, default=True
    )
    options = parser.parse_args(arguments)
    rows = []
    peers = gpu_peers.find() if options.peers else {}
    for cell in cells(options.array_bytes):
        if options.only and not any(p in cell.name for p in options.only):
            continue
        rows.append(measure(cell, options.seconds, peers))
        print(line(rows[-1]), flush=True)
    if not rows:
        raise SystemExit(f"no cell has any of {options.only} in its name")
    about = machine()
    if options.json:
        table = [dataclasses.asdict(row) for row in rows]
        text = json.dumps({"machine": about, "rows": table}, indent=1)
        options.json.write_text(text + "\n")
    if options.plot:
        title = f"{about['device']}, jax {about['jax']}: GB/s"
        options.plot.write_text(gpu_plot.draw(rows, title))


if __name__ == "__main__":
    main(sys.argv[1:])
