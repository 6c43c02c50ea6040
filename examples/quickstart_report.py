"""What the quickstart prints, and what it checks."""

from __future__ import annotations

import statistics
import sys
import textwrap
import time

import jax
import numpy as np

import quickstart_model as model
import quickstart_text as text
import quickstart_train as train
import xla_ffi_kit
from xla_ffi_kit.ops.rms_norm import rms_norm_op

Pair = tuple[float, float]  # of the kit's run and of the plain one

# Nats. On the same weights only rounding differs.
SAME_WEIGHTS_TOLERANCE = 1e-5
# Training amplifies rounding. Measured with three seeds over 300 steps: a norm
# that rounds every element another way moves the loss of any step by at most
# 2e-5; a gradient of the norm that is 1 % wrong moves some step's by 2e-2.
TRAINED_TOLERANCE = 5e-4


class Progress:
    """A line that updates itself on a terminal; else a line every 25 steps."""

    def __init__(self, steps: int) -> None:
        """Starts the clock."""
        self._steps = steps
        self._start = time.monotonic()
        self._live = sys.stdout.isatty()

    def show(self, step: int, kit: float, plain: float) -> None:
        """Prints both losses of a step, and the time left."""
        last = step == self._steps
        if not (last or self._live or step == 1 or step % 25 == 0):
            return
        left = (time.monotonic() - self._start) / step * (self._steps - step)
        line = (
            f"step {step:3}/{self._steps}   loss with the kit {kit:.4f}, "
            f"plain JAX {plain:.4f}   {left:3.0f} s left"
        )
        if self._live:
            print("\r" + line, end="\n" if last else "", flush=True)
        else:
            print(line, flush=True)


def table(
    kit: train.Trainer, plain: train.Trainer, before: Pair, after: Pair
) -> str:
    """The comparison, as text."""
    rows: list[tuple[str, ...]] = [
        ("", "the kit", "plain JAX", ""),
        ("loss before", *_losses(before)),
        ("loss after", *_losses(after)),
    ]
    difference = largest_difference(kit, plain)
    rows.append(("any step", "", "", f"difference <= {difference:.1e}"))
    times = [statistics.median(run.step_times) for run in (kit, plain)]
    ratio = f"plain / kit {times[1] / times[0]:.2f}"
    rows.append(("step, median", *(f"{1e3 * t:.1f} ms" for t in times), ratio))
    kinds = {"all-gather", *kit.collectives(), *plain.collectives()}
    for kind in sorted(kinds):
        counts = (str(run.collectives()[kind]) for run in (kit, plain))
        rows.append((kind, *counts, "in the compiled step"))
    lines = [f"{a:14}{b:>12}{c:>12}   {d}".rstrip() for a, b, c, d in rows]
    lines.insert(1, "-" * 62)
    lines.append("\nhandlers in the kit's compiled step:")
    for target, count in sorted(kit.custom_calls().items()):
        lines.append(f"  {target:28}{count:3} calls, FFI {ffi_version(target)}")
    return "\n".join(lines)


def _losses(pair: Pair) -> tuple[str, str, str]:
    difference = f"difference {abs(pair[0] - pair[1]):.1e}"
    return f"{pair[0]:.4f}", f"{pair[1]:.4f}", difference


def largest_difference(kit: train.Trainer, plain: train.Trainer) -> float:
    """Of the two losses at the same step, over all steps."""
    return float(np.max(np.abs(np.subtract(kit.losses, plain.losses))))


def problems(
    kit: train.Trainer, plain: train.Trainer, before: Pair, after: Pair
) -> list[str]:
    """What is wrong with the comparison, a sentence each; empty if nothing."""
    found = []
    for when, difference, tolerance in (
        ("before training", abs(before[0] - before[1]), SAME_WEIGHTS_TOLERANCE),
        ("in training", largest_difference(kit, plain), TRAINED_TOLERANCE),
        ("after training", abs(after[0] - after[1]), TRAINED_TOLERANCE),
    ):
        # "not <=" rather than ">", so that a NaN is found too.
        if not difference <= tolerance:
            found.append(
                f"the losses with the kit and with plain JAX {when} differ by "
                f"{difference:.1e}, expected at most {tolerance:.0e}"
            )
    if not after[0] < before[0]:
        found.append(f"the loss did not fall: {before[0]}, then {after[0]}")
    if not kit.custom_calls():
        found.append(
            "no handler of the kit is in its training step; "
            "`python -m xla_ffi_kit doctor` says why"
        )
    for kind, count in (kit.collectives() - plain.collectives()).items():
        found.append(
            f"the kit's training step has {count} more {kind} than plain JAX's"
        )
    return found


def ffi_version(target: str) -> str:
    """The FFI API version that the handler itself says it was built with."""
    for library in rms_norm_op.libraries:
        if library.exists and target in library.handlers:
            version = library.handlers[target].metadata().api_version
            return ".".join(map(str, version))
    return "unknown"


def sample(params: model.Params, corpus: text.Text, length: int) -> str:
    """The end of a held-out passage, then what the model makes of it."""
    window = corpus.held_out[:length]
    # One copy on one device is enough here.
    params = jax.device_put(params, jax.devices()[0])
    characters = jax.jit(model.continue_text, static_argnums=(2, 4))(
        params, window, xla_ffi_kit.rms_norm, jax.random.key(1), 160
    )
    prompt = corpus.decode(window[-60:])
    return textwrap.fill(f"{prompt}|{corpus.decode(characters)}", 72)
