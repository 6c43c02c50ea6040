"""The CUDA kernels beside XLA's own code and a copy on the device.

    python gpu_bench.py [--only PART] [--json FILE] [--quick]

A program runs one contestant on several sets of buffers, one after the other,
so that no call finds its data in a cache. Programs take turns; they are queued,
so that the host works ahead of the GPU, and the time is that until the last is
done. "copy" copies on the device as many bytes as a call reads and writes.
"""

from __future__ import annotations

import argparse
import functools
import json
import pathlib
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import string_kernels

import xla_ffi_kit
from xla_ffi_kit.ops import modular_add, relu
from xla_ffi_kit.ops.rms_norm import rms_norm_op, rms_norm_weight_bwd_op

Function = Callable[..., Any]
Cell = tuple[str, Function, Function, Sequence[jax.ShapeDtypeStruct]]

_ROUNDS = 9
# Four times the largest L2 cache, of what a program touches before it comes
# back to a buffer.
_ROTATION_BYTES = 512 << 20
_ROW_LENGTHS = (256, 1024, 4096, 8192, 28672, 65536, 262144)
_DTYPES = {"f32": "float32", "bf16": "bfloat16"}
_STRINGS = ("recurrence", "gates", "gates_backward", "biquad")


def _beside_reference(op: Any, **attributes: Any) -> tuple[Function, Function]:
    return tuple(functools.partial(f, **attributes) for f in (op, op.reference))


def cells(array_bytes: int) -> Iterator[Cell]:
    """Name, the kit's, XLA's, and operands; arrays have about these bytes."""
    for label, dtype in _DTYPES.items():
        elements = array_bytes // jnp.dtype(dtype).itemsize
        for n in _ROW_LENGTHS:
            rows = max(1, elements // n)
            x = jax.ShapeDtypeStruct((rows, n), dtype)
            weight = jax.ShapeDtypeStruct((n,), dtype)
            scale = jax.ShapeDtypeStruct((rows,), jnp.float32)
            name = f"{label}/{rows}x{n}"
            forward = _beside_reference(rms_norm_op, eps=1e-6)
            yield f"rms_norm/{name}", *forward, (x, weight)
            backward = _beside_reference(rms_norm_weight_bwd_op)
            yield f"rms_norm_bwd/{name}", *backward, (x, x, scale, weight)
        flat = jax.ShapeDtypeStruct((elements,), dtype)
        short = jax.ShapeDtypeStruct((128,), dtype)
        yield f"relu/{label}", *_beside_reference(relu), (flat,)
        yield (
            f"modular_add/{label}",
            *_beside_reference(modular_add),
            (
                short,
                flat,
            ),
        )
    row = jax.ShapeDtypeStruct((array_bytes // 4 // 512, 512), jnp.float32)
    for name in _STRINGS:
        op = getattr(string_kernels, name)
        operands = (row,) * len(op.spec.operands)
        yield f"{name}, a string", *_beside_reference(op), operands


def _bytes(function: Function, operands: Sequence[Any]) -> int:
    arrays = [*operands, *jax.tree.leaves(jax.eval_shape(function, *operands))]
    return sum(x.size * x.dtype.itemsize for x in arrays)


def _over_sets(function: Function) -> Function:
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


def _sets(operands: Sequence[Any], count: int) -> list[tuple[Any, ...]]:
    def make(x: Any, seed: int) -> jax.Array:
        if jnp.issubdtype(x.dtype, jnp.integer):
            return jnp.full(x.shape, seed, x.dtype)
        return jax.random.uniform(jax.random.key(seed), x.shape, x.dtype, 0.1)

    return [
        tuple(make(x, 10 * i + j) for j, x in enumerate(operands))
        for i in range(count)
    ]


def _seconds(program: Function, sets: Any, repeats: int) -> float:
    """Of a call of the function."""
    began = time.perf_counter()
    for _ in range(repeats):
        results = program(sets)
    jax.block_until_ready(results)
    return (time.perf_counter() - began) / repeats / len(sets)


def measure(cell: Cell, seconds: float) -> dict[str, float]:
    """Contestant -> the median microseconds of a call."""
    _, kit, xla, operands = cell
    moved = _bytes(xla, operands)
    count = max(2, -(-_ROTATION_BYTES // moved))
    sets = _sets(operands, count)
    half = [jax.ShapeDtypeStruct((moved // 2,), jnp.uint8)]
    programs = {
        "kit": (_over_sets(kit), sets),
        "xla": (_over_sets(xla), sets),
        "copy": (_over_sets(lambda x: x.copy()), _sets(half, count)),
    }
    repeats = {}
    for name, (program, own) in programs.items():
        jax.block_until_ready(program(own))  # compiles, and loads code
        once = _seconds(program, own, 1) * count
        repeats[name] = max(1, round(seconds / _ROUNDS / max(once, 1e-9)))
    found: dict[str, list[float]] = {name: [] for name in programs}
    for _ in range(_ROUNDS):
        for name, (program, own) in programs.items():
            found[name].append(_seconds(program, own, repeats[name]))
    return {n: 1e6 * statistics.median(times) for n, times in found.items()}


def main() -> None:
    """Measures, prints a table, and writes it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add = parser.add_argument
    add("--only", default="", help="part of the cells' names")
    add("--json", type=pathlib.Path)
    add(
        "--quick", action="store_true", help="small arrays, to see that it runs"
    )
    options = parser.parse_args()
    about = f"jax {jax.__version__} on {jax.devices()[0].device_kind}"
    print(about, f"kit {xla_ffi_kit.__version__}", sep=", ")
    found = {}
    for cell in cells(1 << 20 if options.quick else 128 << 20):
        if options.only in cell[0]:
            times = measure(cell, 0.01 if options.quick else 0.5)
            found[cell[0]] = times
            print(
                f"{cell[0]:32} {times['kit']:8.1f} us,"
                f" of a copy {times['copy'] / times['kit']:.2f},"
                f" x XLA {times['xla'] / times['kit']:.2f}",
                flush=True,
            )
    if options.json:
        text = json.dumps({"machine": about, "microseconds": found}, indent=1)
        options.json.write_text(f"{text}\n")


if __name__ == "__main__":
    main()
