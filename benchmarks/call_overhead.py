"""What a call of an `FfiOp` costs beside a bare `ffi_call` of the same handler.

    tools/bazel run //benchmarks:call_overhead

Three costs, each the least of several interleaved rounds, in microseconds per
call: of an eager call; inside a compiled program (a chain of calls, so that
they cannot run side by side); and of tracing and lowering, paid once per call
site. An eager `x + 1` and an eager call of a jitted `ffi_call` are there for
comparison.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import xla_ffi_kit
from xla_ffi_kit.ops import relu
from xla_ffi_kit.ops.rms_norm import rms_norm_op

CHAIN = 100


def bare_rms_norm(x: jax.Array) -> jax.Array:
    """The tutorial's call of the kit's handler."""
    call = jax.ffi.ffi_call(
        "xla_ffi_kit.rms_norm",
        jax.ShapeDtypeStruct(x.shape, x.dtype),
        vmap_method="broadcast_all",
    )
    return call(x, eps=np.float64(1e-6))


def chosen_rms_norm(x: jax.Array) -> jax.Array:
    """The tutorial's choice among platforms, which is made when compiled."""
    return jax.lax.platform_dependent(
        x, cpu=bare_rms_norm, cuda=bare_rms_norm, default=bare_rms_norm
    )


def op_rms_norm(x: jax.Array) -> jax.Array:
    """The spec's call."""
    return rms_norm_op(x, eps=1e-6)


def public_rms_norm(x: jax.Array) -> jax.Array:
    """The public function, which checks its arguments too."""
    return xla_ffi_kit.rms_norm(x)


def chain(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """`function` applied to its own result, many times over."""

    def run(x: Any) -> Any:
        for _ in range(CHAIN):
            x = function(x)
        return x

    return run


def least(
    functions: dict[str, Callable[[], Any]], rounds: int, repeat: int
) -> dict[str, float]:
    """The least time of a call of each, in microseconds; rounds interleave."""
    best = dict.fromkeys(functions, float("inf"))
    for _ in range(rounds):
        for name, function in functions.items():
            start = time.perf_counter()
            for _ in range(repeat):
                result = function()
            jax.block_until_ready(result)
            spent = (time.perf_counter() - start) / repeat
            best[name] = min(best[name], spent * 1e6)
    return best


def measure(rounds: int) -> dict[str, dict[str, float]]:
    """All costs, by kind and by who pays them."""
    xla_ffi_kit.register()
    x = jnp.ones((8, 4), jnp.float32)
    calls = {
        "ffi_call": bare_rms_norm,
        "platform_dependent": chosen_rms_norm,
        "FfiOp": op_rms_norm,
        "rms_norm": public_rms_norm,
    }
    jitted = jax.jit(bare_rms_norm)
    eager = {name: lambda f=f: f(x) for name, f in calls.items()}
    eager["relu (FfiOp)"] = lambda: relu(x)
    eager["x + 1"] = lambda: x + 1
    eager["jitted ffi_call"] = lambda: jitted(x)
    compiled = {
        name: jax.jit(chain(f)).lower(x).compile() for name, f in calls.items()
    }
    for run in (
        *eager.values(),
        *(lambda f=f: f(x) for f in compiled.values()),
    ):
        jax.block_until_ready(run())

    def per_call(times: dict[str, float]) -> dict[str, float]:
        return {name: spent / CHAIN for name, spent in times.items()}

    def traced(function: Callable[[Any], Any]) -> Any:
        # A new function each time, or JAX remembers the trace.
        return jax.jit(chain(lambda v: function(v))).trace(x)

    return {
        "eager": least(eager, rounds, 200),
        "compiled": per_call(
            least(
                {n: lambda f=f: f(x) for n, f in compiled.items()}, rounds, 50
            )
        ),
        "tracing": per_call(
            least(
                {n: lambda f=f: traced(f) and x for n, f in calls.items()},
                rounds,
                1,
            )
        ),
        "tracing and lowering": per_call(
            least(
                {
                    n: lambda f=f: traced(f).lower() and x
                    for n, f in calls.items()
                },
                rounds,
                1,
            )
        ),
    }


def main() -> None:
    """Prints a table; writes the same as JSON if asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", help="also write the numbers to this file")
    options = parser.parse_args()
    results = measure(options.rounds)
    for kind, times in results.items():
        base = times["ffi_call"]
        print(f"{kind}, us per call")
        for name, spent in times.items():
            print(f"  {name:18} {spent:8.2f}  {spent / base:5.2f} x ffi_call")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(results, file, indent=1)


if __name__ == "__main__":
    main()
