"""The kit's library beside another build of it, by another compiler.

    tools/bazel run //benchmarks:libraries -- OTHER.so
        --only rms_norm/bwd sort --seconds 1

Both are loaded into this process and take turns. A ratio is the kit's time
divided by the other's, so above 1 the other is faster; results must have the
same bits. Cells whose function is called eagerly are left out.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import sys
from collections.abc import Iterator, Sequence
from typing import Any
from unittest import mock

import jax
import numpy as np
from cells import Cell
from compare import parser, select
from measure import Contestant, compiled_function, run_rounds, runner

import xla_ffi_kit

_PREFIX = "other."


def register(path: str) -> None:
    """Registers the handlers of the library at `path` under other names."""
    library = xla_ffi_kit.HandlerLibrary(path)
    for handler in library.handlers.values():
        stages = {s: jax.ffi.pycapsule(a) for s, a in handler.stages.items()}
        jax.ffi.register_ffi_target(_PREFIX + handler.name, stages, "cpu")


@contextlib.contextmanager
def other_library() -> Iterator[None]:
    """What is compiled in it calls the other library's handlers."""
    build = jax.ffi.build_ffi_lowering_function
    # What was traced before would be taken from a cache.
    jax.clear_caches()
    with mock.patch.object(
        jax.ffi,
        "build_ffi_lowering_function",
        lambda target, **options: build(_PREFIX + target, **options),
    ):
        yield
    jax.clear_caches()


def _contestant(cell: Cell, name: str) -> Contestant | None:
    """None if the compiled program calls no handler of that library."""
    function, operands = cell.make()["kit"]
    compiled = compiled_function(function, operands)
    if f'custom_call_target="{name}' not in compiled.as_text():
        return None
    return Contestant(runner(compiled, operands, cell.regime))


def same_bits(a: Any, b: Any) -> bool:
    """Whether two trees of arrays are equal to the bit."""
    return all(
        np.asarray(x).tobytes() == np.asarray(y).tobytes()
        for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
    )


def ratio(cell: Cell, seconds: float) -> tuple[float, bool] | None:
    """The kit's time divided by the other's, and whether the bits agree."""
    kit = _contestant(cell, "xla_ffi_kit.")
    with other_library():
        other = _contestant(cell, _PREFIX)
    if kit is None or other is None:
        return None
    same = same_bits(kit.run(), other.run())
    run_rounds([kit, other], seconds)
    pairs = zip(kit.seconds, other.seconds, strict=True)
    return statistics.median(a / b for a, b in pairs), same


def main(arguments: Sequence[str] | None = None) -> int:
    options = parser(__doc__.splitlines()[0])
    options.add_argument("other", metavar="OTHER.so")
    chosen = options.parse_args(arguments)
    jax.config.update("jax_enable_x64", True)
    os.chdir(os.environ.get("BUILD_WORKING_DIRECTORY", "."))
    register(chosen.other)
    ratios = []
    different = 0
    for cell in select(chosen.only):
        measured = None
        if cell.regime != "eager":
            measured = ratio(cell, chosen.seconds)
        if measured is None:
            continue
        found, same = measured
        ratios.append(found)
        different += not same
        verdict = "" if same else "  OTHER BITS"
        print(f"{found:6.3f}  {cell.name}{verdict}", flush=True)
    print(
        f"{len(ratios)} cells, median {statistics.median(ratios):.3f}, "
        f"least {min(ratios):.3f}, {different} with other bits"
    )
    return min(different, 1)


if __name__ == "__main__":
    sys.exit(main())
