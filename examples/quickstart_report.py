"""What the quickstart prints, and what it checks."""

from __future__ import annotations

import os
import pathlib
import sys
import textwrap
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

import quickstart_model as model
import quickstart_ops as ops
import quickstart_text as text
import quickstart_train as train
from xla_ffi_kit.testing import Report

Pair = tuple[float, float]  # of the kit's run and of the plain one
Row = tuple[str, str, str, str]  # what, with plain JAX, with the kit, a remark

# Nats. On the same weights only rounding differs.
SAME_WEIGHTS_TOLERANCE = 1e-5
# Training amplifies rounding. Measured with three seeds over 300 steps: a norm
# that rounds every element another way moves the loss of any step by at most
# 2e-5; a gradient of the norm that is 1 % wrong moves some step's by 2e-2.
TRAINED_TOLERANCE = 5e-4


class Result(NamedTuple):
    """What a part of the quickstart has to say at the end.

    Attributes:
      rows: of the table.
      problems: what did not hold, a sentence each; empty if all did.
      draw: draws it on matplotlib's axes.
    """

    rows: list[Row]
    problems: list[str]
    draw: Callable[[Any], None]


def progress(line: str, *, last: bool) -> None:
    """Prints a line, which on a terminal the next one replaces."""
    if sys.stdout.isatty():
        print(f"\r{line:<72}", end="\n" if last else "", flush=True)
    else:
        print(line, flush=True)


def checks(outcome: Report) -> str:
    """What `check_op` has checked, in lines."""
    passed = [row.check for row in outcome.rows if row.status == "passed"]
    said = f"{len(passed)} checks passed: {', '.join(dict.fromkeys(passed))}"
    return textwrap.fill(said, 72, initial_indent="  ", subsequent_indent="  ")


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
        progress(
            f"step {step:3}/{self._steps}   loss with plain JAX {plain:.4f}, "
            f"the kit {kit:.4f}   {left:3.0f} s left",
            last=last,
        )


def table(rows: list[Row]) -> str:
    """The rows as text, below their titles."""
    titles = ("", "plain JAX", "the kit", "")
    lines = [
        f"{what:36}{plain:>10}{kit:>10}  {remark}".rstrip()
        for what, plain, kit, remark in [titles, *rows]
    ]
    return "\n".join([lines[0], "-" * max(map(len, lines)), *lines[1:]])


def plot(path: str, results: list[Result]) -> None:
    """Draws the results side by side into a file."""
    import matplotlib.figure

    figure = matplotlib.figure.Figure((10, 4), layout="constrained")
    for axes, result in zip(
        figure.subplots(1, len(results)), results, strict=True
    ):
        result.draw(axes)
    # `bazel run` starts programs elsewhere, and says here where it was.
    folder = os.environ.get("BUILD_WORKING_DIRECTORY", "")
    figure.savefig(pathlib.Path(folder, path))


def training(
    kit: train.Trainer, plain: train.Trainer, before: Pair, after: Pair
) -> Result:
    """What the two trainings say; a pair is (the kit's loss, plain JAX's)."""
    difference = largest_difference(kit, plain)
    rows = [
        ("loss before training", *_losses(before)),
        (f"loss after {len(kit.losses)} steps", *_losses(after)),
        ("  at any step", "", "", f"difference <= {difference:.1e}"),
    ]

    def draw(axes: Any) -> None:
        axes.plot(plain.losses, linewidth=4, alpha=0.4, label="plain JAX")
        axes.plot(kit.losses, color="black", linewidth=1, label="the kit")
        axes.set_xlabel("step")
        axes.set_title("loss, nats per character")
        axes.legend()

    return Result(rows, problems(kit, plain, before, after), draw)


def _losses(pair: Pair) -> tuple[str, str, str]:
    difference = f"difference {abs(pair[0] - pair[1]):.1e}"
    return f"{pair[1]:.4f}", f"{pair[0]:.4f}", difference


def handlers(kit: train.Trainer) -> str:
    """The handlers that the compiled training step calls."""
    lines = ["C++ handlers in the compiled training step:"]
    for target, count in sorted(kit.custom_calls().items()):
        lines.append(f"  {target:42}{count:2} calls, FFI {ffi_version(target)}")
    return "\n".join(lines)


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
            "no C++ handler is in the training step; "
            "`python -m xla_ffi_kit doctor` says why"
        )
    for kind, count in (kit.collectives() - plain.collectives()).items():
        found.append(
            f"the kit's training step has {count} more {kind} than plain JAX's"
        )
    return found


def shorten(passage: str, most: int = 400) -> str:
    """The passage, or its beginning and its end, in lines."""
    if len(passage) > most:
        passage = f"{passage[: most // 2]} [...] {passage[-most // 2 :]}"
    return textwrap.fill(passage, 72)


def ffi_version(target: str) -> str:
    """The FFI API version that the handler itself says it was built with."""
    for library in ops.rms_norm.spec.libraries:
        if library.exists and target in library.targets:
            version = library.handler(target).metadata().api_version
            return ".".join(map(str, version))
    return "unknown"


def sample(params: model.Params, corpus: text.Text, length: int) -> str:
    """The end of a held-out passage, then what the model makes of it."""
    window = corpus.held_out[:length]
    # One copy on one device is enough here.
    params = jax.device_put(params, jax.devices()[0])
    characters = jax.jit(model.continue_text, static_argnums=(2, 4))(
        params, window, ops.rms_norm, jax.random.key(1), 160
    )
    prompt = corpus.decode(window[-60:])
    return textwrap.fill(f"{prompt}|{corpus.decode(characters)}", 72)
