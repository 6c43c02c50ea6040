"""Kernels as strings beside JAX, numba, Warp and adjoints by hand.

    tools/bazel run -c opt //benchmarks:strings [-- --only isotonic]
    tools/bazel run -c opt //benchmarks:strings -- --publish

Value, and value and gradient (`derivatives="kernel"`), in f32, of one row and
of 391, all on one thread: XLA's, numba's and Warp's. They take turns in this
process, and the least time counts. Before, their results are compared. Warp
takes part if it can be imported.
"""

from __future__ import annotations

import argparse
import functools
import importlib.util
import json
import os
import pathlib
import sys
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import strings_by_hand
import strings_page
from bench import modes
from bench.measure import least, prepared
from bench.page import environment
from strings_kernels import Kernel, kernels

ROWS = (1, 391)
_ONE_THREAD = (
    " --xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
)
# Of the largest value, in f32; sums of 512 numbers have another order.
TOLERANCE = 2e-3
_Calls = dict[str, Callable[[], Any]]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures; an AssertionError says whose results differ."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--only", nargs="*", default=[], metavar="WORD", help="of a name")
    add("--seconds", type=float, default=2.0, help="of each comparison")
    add("--json", metavar="FILE", help="write the figures to this file")
    add("--publish", action="store_true", help="write page and picture")
    options = parser.parse_args(arguments)
    # Both are read later: when there is a first array, and a first library.
    os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + _ONE_THREAD
    os.environ["XLA_FFI_KIT_THREADS"] = "1"
    found = []
    for name in modes.chosen(parser, kernels(), options.only):
        for rows in ROWS:
            found.append(measured(kernels()[name], rows, options.seconds))
            print(strings_page.line(found[-1]), flush=True)
    about = environment(jax=jax.__version__, **_versions())
    data = {"environment": about, "kernels": found}
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(data, indent=1))
    if options.publish:
        root = os.environ.get("BUILD_WORKSPACE_DIRECTORY", ".")
        strings_page.write(pathlib.Path(root), data)
    return 0


def _has(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def _versions() -> dict[str, str]:
    from importlib import metadata

    packages = {"numba": "numba", "warp": "warp-lang"}
    return {p: metadata.version(p) for m, p in packages.items() if _has(m)}


def measured(kernel: Kernel, rows: int, seconds: float) -> dict[str, Any]:
    """The least microseconds of each, by "value" and "gradient"."""
    shape = (rows,) if rows > 1 else ()
    random = np.random.default_rng(7)
    made = kernel.operands(random, shape, kernel.size)
    host = [x.astype(np.float32) for x in made]
    row: dict[str, Any] = {"name": kernel.name, "rows": rows}
    for what, calls in _calls(kernel, host, bool(shape), random).items():
        _compare(f"{kernel.name}, {what}", {w: f() for w, f in calls.items()})
        times = least(calls, seconds)
        row[what] = {who: float(f"{us:.4g}") for who, us in times.items()}
    return row


def _calls(
    kernel: Kernel, host: list[Any], is_many: bool, random: np.random.Generator
) -> dict[str, _Calls]:
    device = tuple(jnp.asarray(x) for x in host)
    batched = kernel.of_rows if is_many else lambda function: function
    lanes = {"lanes": True} if is_many and kernel.lanes else {}
    op, plain = kernel.operation(dtypes="f32", **lanes), batched(kernel.jax)
    first = jax.tree.leaves(jax.eval_shape(plain, *device))[0]
    ct = np.float32(random.normal(size=first.shape))

    def call(function: Callable[..., Any]) -> Callable[[], Any]:
        return prepared(jax.jit(function), device, "")[1]

    def pulled(function: Callable[..., Any]) -> Callable[[], Any]:
        return call(functools.partial(_pulled, function, ct))

    value = {"kit": call(op), "JAX": call(batched(kernel.value or kernel.jax))}
    gradient = {"kit": pulled(op), "JAX": pulled(plain)}
    if kernel.name in strings_by_hand.ADJOINTS:
        gradient["by hand"] = pulled(strings_by_hand.ADJOINTS[kernel.name]())
    if _has("numba"):
        import strings_numba

        function = strings_numba.function(kernel.name, kernel.axes)
        value["numba"] = functools.partial(function, *host)
    if _has("warp"):
        import strings_warp

        rows = [host[0] if is_many else host[0][None], *host[1:]]
        slope = ct if is_many else ct[None]
        if calls := strings_warp.calls(kernel.name, rows, slope):
            value["Warp"], gradient["Warp"] = calls
    return {"value": value, "gradient": gradient}


def _pulled(function: Callable[..., Any], ct: Any, *operands: Any) -> Any:
    """The first result, and its gradients towards all operands."""

    def result(*x: Any) -> Any:
        return jax.tree.leaves(function(*x))[0]

    value, back = jax.vjp(result, *operands)
    return value, back(jnp.asarray(ct))


def _compare(name: str, results: dict[str, Any]) -> None:
    wanted = jax.tree.leaves(results["kit"])
    for who, result in results.items():
        for got, want in zip(jax.tree.leaves(result), wanted, strict=True):
            want = np.asarray(want)
            np.testing.assert_allclose(
                np.reshape(got, want.shape),
                want,
                rtol=0,
                atol=TOLERANCE * np.abs(want).max(),
                err_msg=f"{name}: {who} and the kit disagree",
            )


if __name__ == "__main__":
    sys.exit(main())
