"""Times loops from strings beside what XLA has for them.

    python gpu_strings.py [--json FILE] [--quick]

For each: the string's time, `lax.scan`'s (and `associative_scan`'s, where that
applies) divided by it, and that of a copy on the device of as many bytes; then
how long a string compiles, and what a call takes on the host.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time

import jax
import jax.numpy as jnp
import numpy as np
import string_kernels as kernels

import xla_ffi_kit

SHAPES = ((16384, 512), (128, 65536))


def seconds(function, *operands, calls=20, rounds=5):
    """Of a call: the median of rounds that keep the GPU busy."""
    compiled = jax.jit(function)
    jax.block_until_ready(compiled(*operands))
    found = []
    for _ in range(rounds):
        began = time.perf_counter()
        for _ in range(calls):
            result = compiled(*operands)
        jax.block_until_ready(result)
        found.append((time.perf_counter() - began) / calls)
    return statistics.median(found)


# The form where each row goes its own way.
@xla_ffi_kit.rows(
    """
    A h = 0;
    for (int64_t i = 0; i < x.size(); ++i) {
      out[i] = h = std::tanh(decay * h + x[i]);
    }
    """,
    dtypes="f32",
    platforms=("cuda",),
)
def plain_recurrence(x, *, decay=0.9):
    return kernels.recurrence.reference(x, decay=decay)


def associative_gates(a, b):
    """The same as `gates`, in the way of lax.associative_scan."""

    def combine(left, right):
        return left[0] * right[0], right[0] * left[1] + right[1]

    return jax.lax.associative_scan(combine, (a, b), axis=1)[1]


def loops(shape):
    """Name -> the string, what else computes it, and its operands."""
    rng = np.random.default_rng(0)
    x, y = (
        jax.device_put(rng.uniform(0.1, 1, shape).astype(np.float32))
        for _ in range(2)
    )
    whole = jax.device_put(rng.integers(0, 3, shape).astype(np.int32))
    return {
        "recurrence": (kernels.recurrence, None, (x,)),
        "recurrence, plain": (plain_recurrence, None, (x,)),
        "gates": (kernels.gates, associative_gates, (x, y)),
        "gates, backward": (kernels.gates_backward, None, (x, y, x)),
        "running max": (kernels.running_max, None, (x, y)),
        "biquad": (kernels.biquad, None, (x,)),
        "run ids": (kernels.run_ids, None, (whole,)),
    }


def measure_loops(shape, calls):
    """Rows of the table for one shape."""
    for name, (op, other, operands) in loops(shape).items():
        own = seconds(op, *operands)
        arrays = [*operands, *jax.tree.leaves(jax.eval_shape(op, *operands))]
        bytes_ = sum(a.size * a.dtype.itemsize for a in arrays)
        buffer = jnp.zeros(bytes_ // 8, jnp.float32)
        row = {
            "loop": name,
            "shape": list(shape),
            "microseconds": 1e6 * own,
            "times_scan": seconds(op.reference, *operands, calls=calls) / own,
            "times_copy": seconds(jnp.copy, buffer) / own,
        }
        if other is not None:
            row["times_associative"] = seconds(other, *operands) / own
        yield row


def measure_elements():
    """Newton's iteration, and an expression, beside XLA's code for them."""
    x = jnp.linspace(-3, 3, 1 << 26, dtype=jnp.float32)

    @xla_ffi_kit.elementwise(
        "x / (1 + std::exp(-x))", dtypes="f32", platforms=("cuda",)
    )
    def swish(x):
        return jax.nn.swish(x)

    for op in (kernels.cubic_root, swish):
        own = seconds(op, x)
        yield {
            "loop": op.name,
            "shape": [x.size],
            "microseconds": 1e6 * own,
            "times_xla": seconds(op.reference, x) / own,
            "times_copy": seconds(jnp.copy, x) / own,
        }


def measure_compilation():
    """Seconds until a new string is lowered, without a cache and with it."""

    def lower():
        @xla_ffi_kit.rows(
            "A h = 0; kit::for_each(x, out, [&](auto v) "
            "{ return h = 0.5f * h + v; });",
            dtypes="f32",
            platforms=("cuda",),
        )
        def fresh(x):
            return x

        began = time.perf_counter()
        jax.jit(fresh).lower(jnp.ones((32, 32), jnp.float32))
        return time.perf_counter() - began

    with tempfile.TemporaryDirectory() as folder:
        os.environ["XLA_FFI_KIT_CACHE"] = folder
        return {"first_seconds": lower(), "again_seconds": lower()}


def measure_call():
    """Microseconds of a tiny call, and of XLA's own code for it."""
    x = jnp.ones((32, 32), jnp.float32)
    own = seconds(kernels.recurrence, x, calls=2000)
    other = seconds(lambda x: x + 1, x, calls=2000)
    return {"call_microseconds": 1e6 * own, "xla_microseconds": 1e6 * other}


def main() -> None:
    """Prints a table, and writes it as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    rows = []
    shapes = [(64, 128)] if options.quick else SHAPES
    for shape in shapes:
        for row in measure_loops(shape, 1 if shape[1] > 1000 else 3):
            rows.append(row)
            print(json.dumps(row), flush=True)
    for row in () if options.quick else measure_elements():
        rows.append(row)
        print(json.dumps(row), flush=True)
    about = {**measure_compilation(), **measure_call()}
    print(json.dumps(about))
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"loops": rows, **about}, file, indent=1)


if __name__ == "__main__":
    main()
