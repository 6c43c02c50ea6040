"""Training steps with the layers' own RMS norm and with the kit's.

    tools/bazel run //examples/layers:compare [-- --width 512 --rows 1024]
    python examples/layers/compare.py [--width 512 --rows 1024 --depth 4]

Needs flax or equinox, or both; prints the least of interleaved rounds.
"""

from __future__ import annotations

import argparse
import importlib
import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np


def least(steps: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """The least time of each in milliseconds."""
    best = dict.fromkeys(steps, float("inf"))
    for step in steps.values():
        jax.block_until_ready(step())
    for _ in range(rounds):
        for name, step in steps.items():
            start = time.perf_counter()
            jax.block_until_ready(step())
            best[name] = min(best[name], 1e3 * (time.perf_counter() - start))
    return best


def flax_steps(options: argparse.Namespace, x: Any, target: Any) -> Any:
    """A training step of a Flax model, plain and with the kit."""
    nnx = importlib.import_module("flax.nnx")
    layers = importlib.import_module("flax_rms_norm")
    steps = {}
    for name in ("own", "kit"):
        model = layers.Model(options.width, options.depth, rngs=nnx.Rngs(0))
        if name == "kit":
            layers.use_kit(model)
        steps[name] = lambda m=model: layers.train_step(m, x, target)
    return steps


def equinox_steps(options: argparse.Namespace, x: Any, target: Any) -> Any:
    """A training step of an Equinox model, plain and with the kit."""
    layers = importlib.import_module("equinox_rms_norm")
    plain = layers.Model(options.width, options.depth, key=jax.random.key(0))
    models = {"own": plain, "kit": layers.use_kit(plain)}
    return {
        name: lambda m=model: layers.train_step(m, x, target)[1]
        for name, model in models.items()
    }


def main() -> None:
    """Prints a line per framework."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--rows", type=int, default=1024)
    parser.add_argument("--depth", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=20)
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    shape = (options.rows, options.width)
    x, target = (rng.normal(size=shape).astype(np.float32) for _ in range(2))
    for name, make in (("flax", flax_steps), ("equinox", equinox_steps)):
        try:
            steps = make(options, x, target)
        except ModuleNotFoundError as error:
            print(f"{name:8} not measured: {error}")
            continue
        times = least(steps, options.rounds)
        print(
            f"{name:8} own {times['own']:7.2f} ms   kit {times['kit']:7.2f} ms"
            f"   own / kit {times['own'] / times['kit']:.2f}"
        )


if __name__ == "__main__":
    main()
