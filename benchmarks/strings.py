"""Ten kernels as strings beside the best plain JAX.

    tools/bazel run -c opt //benchmarks:strings [-- --only isotonic]
    tools/bazel run -c opt //benchmarks:strings -- --publish

Value, and value and gradient (`derivatives="kernel"`), in f32, of one row and
of 391, all on one thread; of loops over a state also in the form of kit::scan. They take turns in this process, and the least time
counts. Before, their results are compared.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import pathlib
import sys
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import measuring
from strings_kernels import Kernel, kernels

PAGE = "docs/strings_measured.md"
ROWS = (1, 391)
HEADING = (
    "kernel",
    "rows",
    "value",
    "x JAX",
    "gradient",
    "x JAX",
    "by `kit::scan`",
    "x JAX",
)
_ONE_THREAD = (
    " --xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
)
# Of the largest value, in f32; sums of 512 numbers have another order.
TOLERANCE = 2e-3
_Calls = dict[str, Callable[[], Any]]


def calls(kernel: Kernel, rows: int) -> dict[str, _Calls]:
    """ "value" and "gradient" -> who -> a call that waits for its results."""
    shape = (rows,) if rows > 1 else ()
    random = np.random.default_rng(7)
    made = kernel.operands(random, shape, kernel.size)
    operands = tuple(jnp.asarray(x, jnp.float32) for x in made)
    batched = kernel.of_rows if shape else lambda function: function
    lanes = {"lanes": True} if shape and kernel.lanes else {}
    op = kernel.operation(dtypes="f32", **lanes)
    scan = kernel.scan and kernel.operation(scan=True, dtypes="f32", **lanes)
    plain, value = batched(kernel.jax), batched(kernel.value or kernel.jax)
    first = jax.tree.leaves(jax.eval_shape(plain, *operands))[0]
    ct = jnp.asarray(random.normal(size=first.shape), jnp.float32)

    def call(function: Callable[..., Any]) -> Callable[[], Any]:
        jitted = jax.jit(function)
        return lambda: jax.block_until_ready(jitted(*operands))

    def pulled(function: Callable[..., Any]) -> Callable[[], Any]:
        return call(functools.partial(_pulled, function, ct))

    return {
        "value": {"kit": call(op), "JAX": call(value)},
        "gradient": {"kit": pulled(op), "JAX": pulled(plain)}
        | ({"kit::scan": pulled(scan)} if scan else {}),
    }


def _pulled(function: Callable[..., Any], ct: Any, *operands: Any) -> Any:
    """The first result, and its gradients towards all operands."""

    def result(*x: Any) -> Any:
        return jax.tree.leaves(function(*x))[0]

    value, back = jax.vjp(result, *operands)
    return value, back(ct)


def compare(name: str, got: Any, wanted: Any) -> None:
    """Raises AssertionError if results differ."""
    pairs = zip(jax.tree.leaves(got), jax.tree.leaves(wanted), strict=True)
    for y, want in pairs:
        want = np.asarray(want)
        np.testing.assert_allclose(
            np.asarray(y),
            want,
            rtol=0,
            atol=TOLERANCE * np.abs(want).max(),
            err_msg=f"{name}: JAX and the kit disagree",
        )


def measure(kernel: Kernel, rows: int, seconds: float) -> list[str]:
    """A line of the table; results are compared."""
    line = [kernel.name, str(rows)]
    for what, contestants in calls(kernel, rows).items():
        name = f"{kernel.name}, {what} of {rows}"
        right = contestants["JAX"]()
        ours = [who for who in contestants if who != "JAX"]
        for who in ours:
            compare(name, right, contestants[who]())
        times = measuring.turns(contestants, seconds)
        for who in ours:
            line.append(measuring.duration(times[who].least))
            ratio = times["JAX"].least / times[who].least
            line.append(measuring.digits(ratio))
    return line + [""] * (len(HEADING) - len(line))


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures; an AssertionError says whose results differ."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--only", default="", metavar="WORD", help="of a name")
    add("--seconds", type=float, default=2.0, help="of each comparison")
    add("--json", metavar="FILE", help="write the table to this file")
    add("--publish", action="store_true", help=f"write {PAGE}")
    options = parser.parse_args(arguments)
    # Both are read later: when there is a first array, and a first library.
    os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + _ONE_THREAD
    os.environ["XLA_FFI_KIT_THREADS"] = "1"
    chosen = [k for k in kernels().values() if options.only in k.name]
    if not chosen:
        parser.error(f"--only: expected a part of one of {[*kernels()]}")
    lines = []
    for kernel in chosen:
        for rows in ROWS:
            lines.append(measure(kernel, rows, options.seconds))
            print("  ".join(lines[-1]), flush=True)
    if options.json:
        about = {"machine": measuring.machine(), "lines": lines}
        pathlib.Path(options.json).write_text(json.dumps(about, indent=1))
    if options.publish:
        forms = ((k.name, k.form) for k in kernels().values())
        text = measuring.table(HEADING, lines)
        text += f"\n{measuring.table(('kernel', 'its form in JAX'), forms)}"
        measuring.publish(PAGE, text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
