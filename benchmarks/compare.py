"""The kit beside XLA's own code, the FFI tutorial's loop and a copy.

    tools/bazel run -c opt //benchmarks:compare [-- --only rms_norm/bwd]
    tools/bazel run -c opt //benchmarks:compare -- --publish

Contestants take turns in this process, and medians count. Before, their results
are compared with XLA's. A cell is operation, direction, dtype and shape:

  fwd       one call from Python, with a result in new memory
  donated   the operand's memory is given up for the result
  bwd       the pullback, with the residuals that each has made itself
  grad      the gradient alone of a loss that is linear in the result
  overhead  a call that has next to nothing to compute
"""

from __future__ import annotations

import argparse
import functools
import json
import pathlib
import platform
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import measuring
import xla_ffi_kit
from xla_ffi_kit.ops.rms_norm import rms_norm_op

Function = Callable[..., Any]
Shape = tuple[int, ...]
PAGE = "docs/measured.md"
CELLS = (
    "rms_norm/overhead/f32/8x4",
    "rms_norm/fwd/f32/1024x1024",
    "rms_norm/fwd/f32/4096x4096",
    "rms_norm/fwd/f32/64x65536",
    "rms_norm/fwd/f32/65536x64",
    "rms_norm/donated/f32/4096x4096",
    "rms_norm/bwd/f32/1024x1024",
    "rms_norm/bwd/f32/64x65536",
    "rms_norm/bwd/f32/65536x64",
    "rms_norm/grad/f32/1024x1024",
    "rms_norm/fwd/bf16/1024x1024",
    "rms_norm/bwd/bf16/1024x1024",
    "rms_norm_residual/fwd/f32/1024x1024",
    "relu/fwd/f32/1024x1024",
    "modular_add/fwd/f32/1024x1024",
)
QUICK = (0, 1, 6, 10, 12, 13, 14)
_DTYPES = {"f32": "float32", "bf16": "bfloat16"}
# Relative to the largest value; squares in bf16 are rounded twice in XLA.
_TOLERANCE = {"f32": 1e-4, "bf16": 4e-2}

_TUTORIAL = r"""
#include <cmath>

template <typename T>
void tutorial(kit::In<T> x, double eps, kit::Out<T> y) {
  using A = kit::Accumulate<T>;
  const int64_t n = x.columns();
  for (int64_t r = 0; r < x.rows(); ++r) {
    const T* const in = x.row(r);
    T* const out = y.row(r);
    A squares = 0;
    for (int64_t i = 0; i < n; ++i) squares += A(in[i]) * A(in[i]);
    const A scale = 1 / std::sqrt(squares / n + A(eps));
    for (int64_t i = 0; i < n; ++i) out[i] = T(A(in[i]) * scale);
  }
}
"""

_COPY = r"""
#include <cstring>

template <typename T>
void copy(kit::In<T> x, kit::Threads threads, kit::Out<T> y) {
  threads.For(x.size(), 2 * sizeof(T), [&](int64_t begin, int64_t end) {
    std::memcpy(y.data() + begin, x.data() + begin, (end - begin) * sizeof(T));
  });
}
"""


@functools.cache
def _tutorial() -> Function:
    """The tutorial's loop, on one thread, for any processor of the kind."""
    is_x86 = platform.machine() == "x86_64"
    generic = f"-march={'x86-64' if is_x86 else 'armv8-a'}"

    @xla_ffi_kit.inline(
        _TUTORIAL, dtypes="f32 bf16", kernel_axes=1, flags=[generic]
    )
    def tutorial(x: Any, *, eps: float = 1e-6) -> Any:
        return rms_norm_op.reference(x, eps=eps)

    return tutorial


@functools.cache
def _copy() -> Function:
    """A copy of the bytes, on XLA's threads."""

    @xla_ffi_kit.inline(_COPY, dtypes="f32 bf16", kernel_axes=0)
    def copy(x: Any) -> Any:
        return x

    return copy


def _copies(x: Any, *others: Any) -> Any:
    """Moves the bytes that an operation moves: one result for each large x."""
    if not others:
        return _copy()(x)
    return [_copy()(y) for y in (x, *others) if y.shape == x.shape]


def _xla_norm(x: Any) -> Any:
    return rms_norm_op.reference(x, eps=1e-6)


# Operation -> in JAX, the kit's, and the shapes of its operands.
_OPERATIONS: Mapping[
    str, tuple[Function, Function, Callable[[Shape], Sequence[Shape]]]
] = {
    "rms_norm": (_xla_norm, xla_ffi_kit.rms_norm, lambda s: [s]),
    "rms_norm_residual": (
        lambda x, w, r: (_xla_norm(x + r) * w, x + r),
        lambda x, w, r: xla_ffi_kit.rms_norm(x, w, residual=r),
        lambda s: [s, s[-1:], s],
    ),
    "relu": (xla_ffi_kit.relu.reference, xla_ffi_kit.relu, lambda s: [s]),
    "modular_add": (
        lambda c, b: xla_ffi_kit.modular_add.reference(b, c),
        lambda c, b: xla_ffi_kit.modular_add(b, c),
        lambda s: [s, (*s[:-1], s[-1] // 8)],
    ),
}


def calls(cell: str) -> dict[str, Callable[[], Any]]:
    """Contestant -> a call that waits for its results; "xla" is the first."""
    name, direction, dtype, size = cell.split("/")
    xla, kit, shapes = _OPERATIONS[name]
    shape = tuple(map(int, size.split("x")))
    random = np.random.default_rng(0)
    x, *others = (
        jnp.asarray(random.standard_normal(s, np.float32), _DTYPES[dtype])
        for s in shapes(shape)
    )
    cotangent = jnp.asarray(random.standard_normal(shape), x.dtype)
    functions = {"xla": xla, "kit": kit}
    if name == "rms_norm" and direction in ("fwd", "overhead"):
        functions["tutorial"] = _tutorial()
    if direction in ("fwd", "donated"):
        functions["copy"] = _copies
    if direction == "donated":
        functions["kit"] = functools.partial(kit, in_place=True)
        return {who: _donated(f, x) for who, f in functions.items()}
    made = {}
    for who, function in functions.items():
        operands: tuple[Any, ...] = (x, *others)
        if direction == "bwd":
            # The residuals are each contestant's own, as in training.
            _, pullback = jax.jit(functools.partial(jax.vjp, function))(x)
            function, operands = (
                lambda pull, ct: pull(ct),
                (pullback, cotangent),
            )
        elif direction == "grad":
            function = _gradient(function)
            operands = (x, cotangent)
        made[who] = functools.partial(
            lambda call, operands: jax.block_until_ready(call(*operands)),
            jax.jit(function),
            operands,
        )
    return made


def _gradient(function: Function) -> Function:
    return jax.grad(lambda x, ct: jnp.vdot(function(x), ct))


def _donated(function: Function, x: jax.Array) -> Callable[[], Any]:
    # A donated array is gone, so the result is the next call's operand.
    call = jax.jit(function, donate_argnums=0)
    state = [x.copy()]

    def run() -> Any:
        state[0] = jax.block_until_ready(call(state[0]))
        return state[0]

    return run


def compare(cell: str, results: Mapping[str, Any]) -> None:
    """Raises AssertionError if a result is not XLA's."""
    tolerance = _TOLERANCE[cell.split("/")[2]]
    wanted = [
        np.asarray(y, np.float32) for y in jax.tree.leaves(results["xla"])
    ]
    for who in results.keys() - {"copy"}:
        found = jax.tree.leaves(results[who])
        for got, want in zip(found, wanted, strict=True):
            np.testing.assert_allclose(
                np.asarray(got, np.float32),
                want,
                rtol=0,
                atol=tolerance * np.abs(want).max(),
                err_msg=f"{cell}: {who} and XLA disagree",
            )


def measure(cell: str, seconds: float) -> dict[str, float]:
    """Contestant -> the median seconds of a call; results are compared."""
    contestants = calls(cell)
    compare(cell, {who: call() for who, call in contestants.items()})
    found = measuring.turns(contestants, seconds)
    return {who: times.median for who, times in found.items()}


def row(cell: str, times: Mapping[str, float]) -> list[str]:
    """A line of the table."""
    ratios = [
        measuring.digits(times[who] / times["kit"]) if who in times else "-"
        for who in ("xla", "tutorial", "copy")
    ]
    durations = [measuring.duration(times[who]) for who in ("xla", "kit")]
    return [f"`{cell}`", *durations, *ratios]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures; an AssertionError says whose results differ."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--only", default="", metavar="PART", help="of the cells' names")
    add("--seconds", type=float, default=5, help="of each cell (default 5)")
    add("--quick", action="store_true", help="a few cells, half a second each")
    add("--json", metavar="FILE", help="write the figures to this file")
    add("--publish", action="store_true", help=f"write {PAGE}")
    options = parser.parse_args(arguments)
    cells = [CELLS[i] for i in QUICK] if options.quick else CELLS
    cells = [cell for cell in cells if options.only in cell]
    if not cells:
        parser.error(f"--only: expected a part of one of {', '.join(CELLS)}")
    measured = {}
    for cell in cells:
        measured[cell] = measure(
            cell, 0.5 if options.quick else options.seconds
        )
        print("  ".join(row(cell, measured[cell])), flush=True)
    if options.json:
        about = {"machine": measuring.machine(), "seconds": measured}
        pathlib.Path(options.json).write_text(json.dumps(about, indent=1))
    if options.publish:
        heading = ("cell", "XLA", "kit", "x XLA", "x loop", "x copy")
        rows = [row(cell, times) for cell, times in measured.items()]
        measuring.publish(PAGE, measuring.table(heading, rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
