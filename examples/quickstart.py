"""Trains a small language model twice: with the kit's RMS norm, and without.

A character-level transformer learns English from text that this machine
already has, data-parallel over 4 virtual CPU devices. Both runs start from the
same weights and see the same batches, so their losses must agree; the table at
the end compares them, and says which handlers ran.

    tools/bazel run //examples:quickstart             # under a minute
    tools/bazel run //examples:quickstart -- --short  # 15 seconds
    python examples/quickstart.py                     # with the wheel installed
"""

from __future__ import annotations

import argparse
import resource
import sys
import time

import jax

import quickstart_model as model
import quickstart_report as report
import quickstart_text as text
import quickstart_train as train
import xla_ffi_kit

DEVICES = 4
BATCH, LENGTH = 16, 128  # sequences per step, characters per sequence
SEED = 0


def main(argv: list[str] | None = None) -> int:
    """Runs the comparison; returns 0 if it holds, else 1."""
    args = parse(argv)
    start = time.monotonic()
    # Before the first JAX call: devices are made once. CPU only, so that the
    # program shows the same on every machine.
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_num_cpu_devices", DEVICES)

    corpus = text.read_text(args.text)
    print(
        f"Learning from {corpus.source}: {len(corpus.train):,} characters, "
        f"{len(corpus.alphabet)} different ones."
    )
    kit, plain = make_runs(len(corpus.alphabet), args.steps)
    held_out = next(text.batches(corpus.held_out, 64, LENGTH + 1, SEED))
    before = kit.evaluate(held_out), plain.evaluate(held_out)
    train_both(kit, plain, corpus, args.steps)
    after = kit.evaluate(held_out), plain.evaluate(held_out)

    print("\n" + report.table(kit, plain, before, after))
    print("\nThe model with the kit's norm, asked to go on:\n")
    print(report.sample(kit.params, corpus, LENGTH))
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"\n{time.monotonic() - start:.0f} s, at most {memory:.2f} GiB.")
    problems = report.problems(kit, plain, before, after)
    sys.stdout.flush()
    for problem in problems:
        print(f"quickstart: {problem}", file=sys.stderr)
    return 1 if problems else 0


def parse(argv: list[str] | None) -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(
        prog="quickstart", description=__doc__.partition("\n")[0]
    )
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--steps", type=int, default=200, help="default: 200")
    length.add_argument(
        "--short", dest="steps", action="store_const", const=60, help="60 steps"
    )
    parser.add_argument("--text", metavar="FILE", help="English text, UTF-8")
    args = parser.parse_args(argv)
    if args.steps < 1:
        parser.error(f"--steps: expected at least 1, got {args.steps}")
    return args


def make_runs(alphabet: int, steps: int) -> tuple[train.Trainer, train.Trainer]:
    """Compiles both runs: (with the kit's norm, with plain JAX)."""
    print(f"Compiling both training steps for {DEVICES} devices ...")
    mesh = jax.make_mesh(
        (DEVICES,), ("batch",), axis_types=(jax.sharding.AxisType.Auto,)
    )
    params = model.init_params(
        jax.random.key(SEED), alphabet=alphabet, width=128, blocks=2, heads=4
    )
    shape = (BATCH, LENGTH + 1)
    return (
        train.Trainer(xla_ffi_kit.rms_norm, params, mesh, shape, steps),
        train.Trainer(model.plain_rms_norm, params, mesh, shape, steps),
    )


def train_both(
    kit: train.Trainer, plain: train.Trainer, corpus: text.Text, steps: int
) -> None:
    """Trains both in step, so that a busy machine slows both alike."""
    progress = report.Progress(steps)
    batches = text.batches(corpus.train, BATCH, LENGTH + 1, SEED)
    for step in range(1, steps + 1):
        windows = next(batches)
        # Each goes first every other time: the second finds warmer caches.
        runs = (kit, plain) if step % 2 else (plain, kit)
        for run in runs:
            run.step(windows)
        progress.show(step, kit.losses[-1], plain.losses[-1])


if __name__ == "__main__":
    sys.exit(main())
