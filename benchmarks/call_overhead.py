"""What a call of an `FfiOp` costs beside a bare `ffi_call` of the same handler.

    tools/bazel run //benchmarks:call_overhead

Costs are the least of several interleaved rounds, in microseconds per call: of
an eager call; inside a compiled program (a chain of calls, so that they cannot
run side by side); and of tracing and lowering, paid once per call site. An
eager `x + 1` and an eager call of a jitted `ffi_call` are there for comparison.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import xla_ffi_kit
from bench.measure import Run, least
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


CALLS: Mapping[str, Callable[[jax.Array], jax.Array]] = {
    "ffi_call": bare_rms_norm,
    "platform_dependent": chosen_rms_norm,
    "FfiOp": lambda x: rms_norm_op(x, eps=1e-6),
    "rms_norm": xla_ffi_kit.rms_norm,  # which checks its arguments too
}


def chain(function: Callable[[Any], Any]) -> Any:
    """`function` applied to its own result, many times over, jitted."""

    def run(x: Any) -> Any:
        for _ in range(CHAIN):
            x = function(x)
        return x

    return jax.jit(run)


def in_a_chain(
    calls: Mapping[str, Callable[[Any], Any]], x: jax.Array, seconds: float
) -> dict[str, float]:
    """Microseconds of one of the calls in a compiled program."""

    def run(call: Callable[[Any], Any]) -> Run:
        compiled = chain(call).lower(x).compile()
        return lambda: compiled(x)

    return _of_chain({name: run(call) for name, call in calls.items()}, seconds)


def _of_chain(runs: Mapping[str, Run], seconds: float) -> dict[str, float]:
    return {name: time / CHAIN for name, time in least(runs, seconds).items()}


def measure(seconds: float) -> dict[str, dict[str, float]]:
    """All costs, by kind and by who pays them."""
    xla_ffi_kit.register()
    x = jnp.ones((8, 4), jnp.float32)
    jitted = jax.jit(bare_rms_norm)
    eager = {name: lambda f=f: f(x) for name, f in CALLS.items()} | {
        "relu (FfiOp)": lambda: relu(x),
        "x + 1": lambda: x + 1,
        "jitted ffi_call": lambda: jitted(x),
    }

    def traced(f: Callable[[Any], Any]) -> Any:
        # A new function each time, or JAX remembers the trace.
        return chain(lambda v: f(v)).trace(x)

    tracing = {n: lambda f=f: traced(f) and x for n, f in CALLS.items()}
    both = {n: lambda f=f: traced(f).lower() and x for n, f in CALLS.items()}
    return {
        "eager": least(eager, seconds),
        "compiled": in_a_chain(CALLS, x, seconds),
        "tracing": _of_chain(tracing, seconds),
        "tracing and lowering": _of_chain(both, seconds),
    }


def main() -> None:
    """Prints a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=2, help="of each kind")
    for kind, times in measure(parser.parse_args().seconds).items():
        print(f"{kind}, us per call")
        for name, spent in times.items():
            ratio = spent / times["ffi_call"]
            print(f"  {name:18} {spent:8.2f}  {ratio:5.2f} x ffi_call")


if __name__ == "__main__":
    main()
