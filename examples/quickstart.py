"""What the kit is for, on English text, each time beside plain JAX.

1. RMS norm, a page of C++ loops (tutorial/rms_norm.cc), becomes an operation;
   `check_op` compares it with plain JAX under every transformation. A
   character-level transformer learns the text with it, data-parallel over 4
   virtual CPU devices, and with plain JAX's norm. Both runs start from the same
   weights and see the same batches, so their losses must agree.
2. Isotonic regression, a sort and a loop over a stack, calibrates the trained
   model's confidence: an algorithm that JAX cannot express well.
3. The suffix array of the text, and the longest passage that it repeats: the
   same program without and with `xla_ffi_accelerate`, the same results.

One table at the end compares them.

    tools/bazel run //examples:quickstart                  # a minute
    tools/bazel run //examples:quickstart -- --short       # half of it
    tools/bazel run //examples:quickstart -- --plot a.png  # and a picture
    python examples/quickstart.py     # with both wheels and a C++ compiler
"""

from __future__ import annotations

import argparse
import importlib.util
import resource
import sys
import time

import jax
import numpy as np

import quickstart_calibrate as calibrate
import quickstart_model as model
import quickstart_ops as ops
import quickstart_repeats as repeats
import quickstart_report as report
import quickstart_text as text
import quickstart_train as train
import xla_ffi_accelerate
from xla_ffi_kit.testing import Case, check_op

DEVICES = 4
BATCH, LENGTH = 16, 128  # sequences per step, characters per sequence
SEED = 0


def main(argv: list[str] | None = None) -> int:
    """Runs the parts; returns 0 if they hold what they say, else 1."""
    args = parse(argv)
    start = time.monotonic()
    # Before the first JAX call: devices are made once. CPU only, so that the
    # program shows the same on every machine.
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_num_cpu_devices", DEVICES)

    corpus = text.read_text(args.text)
    check()
    learned, params = learn(corpus, args.steps)
    results = [learned, calibrate_model(corpus, params), find_repeats(corpus)]
    print("\n" + report.table([row for r in results for row in r.rows]))
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"\n{time.monotonic() - start:.0f} s, at most {memory:.2f} GiB.")
    if args.plot:
        report.plot(args.plot, results)
    sys.stdout.flush()
    problems = [problem for r in results for problem in r.problems]
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
    parser.add_argument("--plot", metavar="FILE", help="a picture: .png, .svg")
    args = parser.parse_args(argv)
    if args.steps < 1:
        parser.error(f"--steps: expected at least 1, got {args.steps}")
    if args.plot and importlib.util.find_spec("matplotlib") is None:
        parser.error("--plot: expected matplotlib to be installed: install it")
    return args


def check() -> None:
    """Compares the operation with its reference; raises if they differ."""
    print(
        "1. RMS norm in C++, an operation. check_op compares it with plain JAX:"
    )
    print(report.checks(check_op(ops.rms_norm, [Case("f32[2,8]")])))


def learn(corpus: text.Text, steps: int) -> tuple[report.Result, model.Params]:
    """Trains the model with the operation and with plain JAX's norm."""
    print(
        f"\nA transformer learns {corpus.source} with it: "
        f"{len(corpus.train):,} characters, {len(corpus.alphabet)} different "
        "ones."
    )
    kit, plain = make_runs(len(corpus.alphabet), steps)
    held_out = next(text.batches(corpus.held_out, 64, LENGTH + 1, SEED))
    before = kit.evaluate(held_out), plain.evaluate(held_out)
    train_both(kit, plain, corpus, steps)
    after = kit.evaluate(held_out), plain.evaluate(held_out)
    print("\n" + report.handlers(kit))
    print("\nThe trained model, asked to go on:\n")
    print(report.sample(kit.params, corpus, LENGTH))
    return report.training(kit, plain, before, after), kit.params


def calibrate_model(corpus: text.Text, params: model.Params) -> report.Result:
    """Calibrates the model by the C++ handler, and beside it by plain JAX."""
    # One copy on one device is enough here.
    params = jax.device_put(params, jax.devices()[0])
    data = calibrate.predict(params, corpus.held_out, LENGTH, ops.rms_norm)
    size = data.right.size
    print(f"\n2. Isotonic regression on {size:,} predictions.")
    say = "plain JAX, as one writes it first"
    first = calibrate.fit(ops.first_isotonic, data, say, rounds=1)
    best = calibrate.fit(ops.plain_isotonic, data, "the best plain JAX")
    kit = calibrate.fit(ops.isotonic, data, "a C++ handler")
    half = size // 2
    known = calibrate.Predictions(*(x[:half] for x in data))
    confidence, right = (x[half:] for x in data)
    better = calibrate.calibrate(known, confidence)
    print(
        "On the second half of the held-out text the model's confidence is off "
        f"by\n{100 * calibrate.error(confidence, right):.1f} %, calibrated on "
        f"the first half by {100 * calibrate.error(better, right):.1f} %."
    )
    return calibrate.result(kit, first, best)


def find_repeats(corpus: text.Text) -> report.Result:
    """Finds the longest repeated passage without and with accelerate."""
    whole = np.concatenate([corpus.train, corpus.held_out])
    print(f"\n3. The suffix array of all {whole.size:,} characters.")
    plain = repeats.suffix_array(whole, "plain JAX")
    with xla_ffi_accelerate.enabled():
        kit = repeats.suffix_array(whole, "with accelerate")
    first, second, length = repeats.longest_repeat(kit)
    print(
        f"\nThe longest passage that is there twice, at {first:,} and at "
        f"{second:,}, has {length:,} characters:\n"
    )
    print(report.shorten(corpus.decode(whole[first : first + length])))
    return repeats.result(kit, plain)


def make_runs(alphabet: int, steps: int) -> tuple[train.Trainer, train.Trainer]:
    """Compiles both runs: (with the C++ norm, with plain JAX's)."""
    print(f"Compiling both training steps for {DEVICES} devices ...")
    mesh = jax.make_mesh(
        (DEVICES,), ("batch",), axis_types=(jax.sharding.AxisType.Auto,)
    )
    params = model.init_params(
        jax.random.key(SEED), alphabet=alphabet, width=128, blocks=2, heads=4
    )
    shape = (BATCH, LENGTH + 1)
    return (
        train.Trainer(ops.rms_norm, params, mesh, shape, steps),
        train.Trainer(ops.plain_rms_norm, params, mesh, shape, steps),
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
